"""Where each GPU of a node lies: PCI address, DRM minors, folders. All of it follows from the model and the count."""

from __future__ import annotations

from dataclasses import dataclass

from rocmwatch.simulate.motion import draw
from rocmwatch.simulate.parts import Model

_DRM_MINORS = 64  # of each kind, up to kernel 6.12: /dev/dri/card0 to card63, renderD128 to renderD191
_FIRST_RENDER = 128
_GPU_HWMON = 1  # hwmon0 is the CPU's


@dataclass(frozen=True, slots=True, kw_only=True)
class DrmDevice:
    """A device with DRM nodes: the GPU itself, or one of the platform devices for its partitions.

    Attributes:
        path: Its folder below the root.
        card_minor: The N of its cardN.
        render_minor: The M of its renderDM.
    """

    path: str
    card_minor: int
    render_minor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One GPU.

    Attributes:
        pci: Its address.
        bridge: The folder of the PCI bridge that it hangs on.
        drm: Itself; its folder is `drm.path`.
        extra: The platform devices for partitions, as far as there were DRM minors for them.
        hwmon: Its hwmon folder.
    """

    index: int
    pci: str
    bridge: str
    drm: DrmDevice
    extra: tuple[DrmDevice, ...]
    hwmon: str
    numa_node: int
    unique_id: int
    serial: str

    @property
    def device(self) -> str:
        """The folder of the PCI device."""
        return self.drm.path

    def partition_nodes(self, model: Model) -> tuple[DrmDevice, ...]:
        """The DRM device of each partition, the first one being the GPU itself."""
        return (self.drm, *self.extra)[: model.partition_count]


def places(model: Model, gpus: int, seed: int) -> tuple[Place, ...]:
    """All GPUs of the node in the order of their addresses.

    Minors are given as the driver gives them: each GPU, then its platform devices. A BMC's display is card0. With eight
    MI300X the last GPU's last platform device would be card64: there is no such minor, the driver skips the device, and
    in CPX mode the node has 63 partitions.
    """
    found = []
    card = 1
    platform = 0
    for index in range(gpus):
        pci = model.pci[index]
        bridge = f"sys/devices/pci0000:00/0000:00:{index + 1:02x}.1"
        device = f"{bridge}/{pci}"
        drm = DrmDevice(path=device, card_minor=card, render_minor=_FIRST_RENDER - 1 + card)
        extra = []
        for _ in range(model.partitioning.extra_drm_devices if model.partitioning else 0):
            card += 1
            if card < _DRM_MINORS:
                extra.append(
                    DrmDevice(
                        path=f"sys/devices/platform/amdgpu_xcp_{platform}",
                        card_minor=card,
                        render_minor=_FIRST_RENDER - 1 + card,
                    )
                )
                platform += 1
        card += 1
        found.append(
            Place(
                index=index,
                pci=pci,
                bridge=bridge,
                drm=drm,
                extra=tuple(extra),
                hwmon=f"{device}/hwmon/hwmon{_GPU_HWMON + index}",
                numa_node=index * model.host.sockets // gpus if model.host.sockets > 1 else -1,
                unique_id=int(draw(seed, "unique", index) * (1 << 56)) << 8 | 0xA1,
                serial=f"{692_000_000_000 + int(draw(seed, 'serial', index) * 1_000_000_000)}",
            )
        )
    return tuple(found)
