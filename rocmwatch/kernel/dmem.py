r"""VRAM by control group, where the kernel counts it: cgroup v2 controller `dmem`, with amdgpu regions in new kernels.

    drm/0000:05:00.0/vram 206141652992\n    /sys/fs/cgroup/dmem.capacity: what there is
    drm/0000:05:00.0/vram 17179869184\n     /sys/fs/cgroup/system.slice/vllm.service/dmem.current

One region a line; bytes. Memory is charged to the group of the task that asked for it until it is given back: a group
without processes that still has some holds VRAM of processes that are gone.
Source: Documentation/admin-guide/cgroup-v2.rst (DMEM), kernel/cgroup/dmem.c, amdgpu_vram_mgr.c (region name).
"""

from __future__ import annotations

from rocmwatch.kernel.drm import parse_address

_HIGH = 1 << 50  # 1 PiB: more is a wrong number


def parse_dmem(raw: bytes) -> dict[str, int]:
    """Bytes by PCI address, of the VRAM regions; lines of other drivers' regions, and `max`, are left out."""
    found: dict[str, int] = {}
    for line in raw.splitlines():
        region, _, number = line.strip(b"\0 ").rpartition(b" ")
        kind, _, rest = region.strip().partition(b"/")
        address, _, memory = rest.rpartition(b"/")
        pci = parse_address(address) if (kind, memory) == (b"drm", b"vram") else None
        if pci is not None and number.isdigit() and len(number) <= 20 and int(number) <= _HIGH:
            found[pci] = int(number)
    return found
