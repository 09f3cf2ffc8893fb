"""The node around the GPUs' own files: buses, classes, DRM nodes, drivers, debugfs, and what is no AMD GPU at all."""

from __future__ import annotations

from rocmwatch.simulate.device_files import add_no_power, add_power, add_still_files
from rocmwatch.simulate.parts import Kernel, Model
from rocmwatch.simulate.places import DrmDevice, Place
from rocmwatch.simulate.tree import Tree

DEBUGFS = "sys/kernel/debug"
_DRIVER = "sys/bus/pci/drivers/amdgpu"
_BMC = "sys/devices/pci0000:00/0000:00:1e.0/0000:fe:00.0"
_CPU_SENSOR = "sys/devices/pci0000:00/0000:00:18.3"

# Debugfs files that act when they are read (reset, evict), or that are raw memory: a monitor that touches one is wrong.
FORBIDDEN_DEBUGFS = (
    "amdgpu_benchmark",
    "amdgpu_evict_gtt",
    "amdgpu_evict_vram",
    "amdgpu_gpu_recover",
    "amdgpu_iomem",
    "amdgpu_pm_info",
    "amdgpu_regs",
    "amdgpu_test_ib",
    "amdgpu_vram",
)


def add_node(tree: Tree, model: Model, gpus: tuple[Place, ...]) -> None:
    """Adds /sys apart from KFD: the GPUs and all that lies around them."""
    _add_driver(tree, model.kernel)
    _add_bmc(tree, model.kernel)
    _add_cpu_sensor(tree)
    tree.files["sys/class/drm/version"] = b"drm 1.1.0 20060810\n"
    for gpu in gpus:
        _add_gpu(tree, model, gpu)
        for extra in gpu.extra:
            _add_platform_device(tree, model.kernel, extra)


def table_path(model: Model, gpu: Place) -> str:
    """Where debugfs has the GPU's VRAM table."""
    return f"{DEBUGFS}/dri/{_debugfs_name(model.kernel, gpu.pci, gpu.drm.card_minor)}/amdgpu_vram_mm"


def _debugfs_name(kernel: Kernel, address: str, card_minor: int) -> str:
    return address if kernel.debugfs_by_address else str(card_minor)


def _add_driver(tree: Tree, kernel: Kernel) -> None:
    tree.text(
        "sys/module/amdgpu", refcnt="0", initstate="live", coresize="21336064", srcversion="0D1F8E5A77C3B2964E10AB5"
    )
    if kernel.driver_version is not None:
        tree.text("sys/module/amdgpu", version=kernel.driver_version)
    tree.text("sys/module/amdgpu/parameters", gpu_recovery="-1", runpm="-1", noretry="-1")
    tree.links[f"{_DRIVER}/module"] = "sys/module/amdgpu"
    tree.links["sys/module/amdgpu/drivers/pci:amdgpu"] = _DRIVER
    for name in ("bind", "unbind", "new_id"):
        tree.files[f"{_DRIVER}/{name}"] = b""


def _add_gpu(tree: Tree, model: Model, gpu: Place) -> None:
    slot = gpu.bridge.rsplit("/", 1)[1]
    tree.text(gpu.bridge, **{"class": "0x060400"}, vendor="0x1022", device="0x14ab", numa_node=str(gpu.numa_node))
    tree.text(gpu.bridge, uevent=f"DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=1022:14AB\nPCI_SLOT_NAME={slot}")
    add_power(tree, gpu.bridge, control="auto", enabled="enabled", status="active")
    add_still_files(tree, model, gpu)
    tree.links[f"{gpu.device}/driver"] = _DRIVER
    tree.links[f"{_DRIVER}/{gpu.pci}"] = gpu.device
    for device in (gpu.bridge, gpu.device):
        _put_on_bus(tree, "pci", device)
    _add_drm(tree, gpu.drm)
    folder = _add_debugfs(tree, model.kernel, "amdgpu", gpu.pci, (gpu.drm.card_minor, gpu.drm.render_minor))
    tree.text(folder, amdgpu_gtt_mm="  use_type: 1\n  use_tt: 1")
    tree.text(folder, **dict.fromkeys(FORBIDDEN_DEBUGFS, "a monitor has read what it must not"))


def _add_drm(tree: Tree, device: DrmDevice) -> None:
    for name, minor in (
        (f"card{device.card_minor}", device.card_minor),
        (f"renderD{device.render_minor}", device.render_minor),
    ):
        folder = f"{device.path}/drm/{name}"
        tree.text(folder, dev=f"226:{minor}", uevent=f"MAJOR=226\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor")
        tree.links[f"{folder}/device"] = device.path
        tree.links[f"{folder}/subsystem"] = "sys/class/drm"
        tree.links[f"sys/class/drm/{name}"] = folder


def _add_debugfs(tree: Tree, kernel: Kernel, driver: str, name: str, minors: tuple[int, ...]) -> str:
    """Adds what the DRM core shows of a device, and returns the folder where its driver's own files are.

    A folder by address and links by minor; on older kernels a folder for each minor, the driver's files in the first.
    """
    first = _debugfs_name(kernel, name, minors[0])
    for minor in minors:
        if kernel.debugfs_by_address:
            tree.links[f"{DEBUGFS}/dri/{minor}"] = f"{DEBUGFS}/dri/{first}"
    for folder in (first,) if kernel.debugfs_by_address else map(str, minors):
        tree.text(f"{DEBUGFS}/dri/{folder}", name=f"{driver} dev={name} unique={name}")
        tree.text(f"{DEBUGFS}/dri/{folder}", clients="             command  tgid dev master a   uid      magic")
    return f"{DEBUGFS}/dri/{first}"


def _add_platform_device(tree: Tree, kernel: Kernel, device: DrmDevice) -> None:
    """A partition's DRM device: no PCI, no driver link, no memory files, no sensors."""
    name = device.path.rsplit("/", 1)[1]
    tree.text(device.path, uevent=f"MODALIAS=platform:{name}", modalias=f"platform:{name}", driver_override="(null)")
    add_no_power(tree, device.path)
    _put_on_bus(tree, "platform", device.path)
    _add_drm(tree, device)
    _add_debugfs(tree, kernel, "amdgpu_xcp_drm", name, (device.card_minor, device.render_minor))


def _add_bmc(tree: Tree, kernel: Kernel) -> None:
    """The server's management display, which takes card0 and has no render node."""
    slot = _BMC.rsplit("/", 1)[1]
    driver = "sys/bus/pci/drivers/ast"
    tree.text(_BMC, **{"class": "0x030000"}, vendor="0x1a03", device="0x2000", numa_node="0")
    tree.text(_BMC, uevent=f"DRIVER=ast\nPCI_CLASS=30000\nPCI_ID=1A03:2000\nPCI_SLOT_NAME={slot}")
    add_power(tree, _BMC, control="on", enabled="forbidden", status="active")
    tree.links[f"{_BMC}/driver"] = driver
    tree.links[f"{driver}/{slot}"] = _BMC
    _put_on_bus(tree, "pci", _BMC)
    folder = f"{_BMC}/drm/card0"
    tree.text(folder, dev="226:0", uevent="MAJOR=226\nMINOR=0\nDEVNAME=dri/card0\nDEVTYPE=drm_minor")
    tree.links[f"{folder}/device"] = _BMC
    tree.links[f"{folder}/subsystem"] = "sys/class/drm"
    tree.links["sys/class/drm/card0"] = folder
    _add_debugfs(tree, kernel, "ast", slot, (0,))


def _add_cpu_sensor(tree: Tree) -> None:
    """hwmon0: a sensor of the CPU, which no one should take for a GPU's."""
    folder = f"{_CPU_SENSOR}/hwmon/hwmon0"
    slot = _CPU_SENSOR.rsplit("/", 1)[1]
    tree.text(_CPU_SENSOR, **{"class": "0x060000"}, vendor="0x1022", device="0x14b0")
    tree.text(_CPU_SENSOR, uevent=f"DRIVER=k10temp\nPCI_CLASS=60000\nPCI_ID=1022:14B0\nPCI_SLOT_NAME={slot}")
    tree.text(folder, name="k10temp", temp1_label="Tctl", temp1_input="47125")
    tree.links[f"{folder}/device"] = _CPU_SENSOR
    tree.links["sys/class/hwmon/hwmon0"] = folder
    driver = "sys/bus/pci/drivers/k10temp"
    tree.links[f"{_CPU_SENSOR}/driver"] = driver
    tree.links[f"{driver}/{slot}"] = _CPU_SENSOR
    _put_on_bus(tree, "pci", _CPU_SENSOR)


def _put_on_bus(tree: Tree, bus: str, device: str) -> None:
    tree.links[f"{device}/subsystem"] = f"sys/bus/{bus}"
    tree.links[f"sys/bus/{bus}/devices/{device.rsplit('/', 1)[1]}"] = device
