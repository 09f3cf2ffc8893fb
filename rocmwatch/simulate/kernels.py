"""The kernels that can be simulated: mainline as distributions ship it, and with ROCm's own driver (DKMS) in it.

What a kernel has and another lacks is a row here. ROCm's driver is newer than the kernel that it is built for: it
brings files and formats of its own, while what belongs to the DRM core (debugfs' folders, fdinfo, dmem) stays.
Sources: drivers/gpu/drm/amd of these releases; of ROCm's driver, the files that it is known to show.
"""

from __future__ import annotations

from rocmwatch.simulate.parts import Kernel

# Files by the first of the kernels below that has them.
_FIRST_IN = {
    "6.5": (
        "kfd/num_xcc",
        "kfd/debug_prop",
        "current_compute_partition",
        "available_compute_partition",
        "current_memory_partition",
        "xgmi_num_hops",
        "xgmi_num_links",
    ),
    "6.8": (
        "hwmon/power1_input",
        "manufacturer",
        "fru_id",
        "board_info",
        "xgmi_physical_id",
        "xgmi_port_num",
        "pm_metrics",
    ),
    "6.12": ("ras/event_state", "ras/umc_err_count#de", "enforce_isolation"),
    "7.3": (
        "available_memory_partition",
        "compute_partition_mem_alloc_mode",
        "vcn_busy_percent",
        "xcp/xcp_metrics",
        "kfd/unique_id of a partition",
        "dmem.capacity",
        "dmem.current",
    ),
}
_OF_ROCM = frozenset({"used_memory"})  # no mainline kernel has it
_NOT_OF_ROCM = frozenset(
    {
        "compute_partition_mem_alloc_mode",
        "vcn_busy_percent",
        "kfd/unique_id of a partition",
        "dmem.capacity",
        "dmem.current",
    }
)


def _lacking(name: str) -> frozenset[str]:
    """What a mainline kernel does not have yet, or never had."""
    order = list(_FIRST_IN)
    later = order[order.index(name) + 1 :] if name in order else order
    return _OF_ROCM.union(*(_FIRST_IN[kernel] for kernel in later))


_ALL = (
    Kernel(
        name="5.15",
        release="5.15.0-161-generic",
        buddy_format="F0",
        debugfs_by_address=False,
        silent_die_power=True,
        fdinfo="5.15",
        lacks=_lacking("5.15"),
    ),
    Kernel(
        name="6.1",
        release="6.1.0-41-amd64",
        buddy_format="F1",
        debugfs_by_address=False,
        silent_die_power=True,
        fdinfo="6.1",
        lacks=_lacking("6.1"),
    ),
    Kernel(
        name="6.5",
        release="6.5.0-45-generic",
        buddy_format="F1",
        debugfs_by_address=False,
        silent_die_power=True,
        fdinfo="6.5",
        lacks=_lacking("6.5"),
    ),
    Kernel(
        name="6.8",
        release="6.8.0-90-generic",
        buddy_format="F2",
        debugfs_by_address=True,
        silent_die_power=False,
        fdinfo="6.8",
        lacks=_lacking("6.8"),
    ),
    Kernel(
        name="6.12",
        release="6.12.48",
        buddy_format="F3",
        debugfs_by_address=True,
        silent_die_power=False,
        fdinfo="6.8",
        lacks=_lacking("6.12"),
    ),
    Kernel(
        name="7.3",
        release="7.3.4",
        buddy_format="F4",
        debugfs_by_address=True,
        silent_die_power=False,
        marks_deep_sleep=True,
        fdinfo="7.3",
        xcp_metrics=(1, 1),
        lacks=_lacking("7.3"),
    ),
    Kernel(
        name="dkms-6.4",  # ROCm 6.4 on Ubuntu 22.04's newer kernel
        release="6.8.0-90-generic",
        driver_version="6.12.12",
        buddy_format="F3",
        debugfs_by_address=True,
        silent_die_power=False,
        fdinfo="6.8",
        lacks=_NOT_OF_ROCM | {"xcp/xcp_metrics"},
    ),
    Kernel(
        name="dkms",  # ROCm 7
        release="6.8.0-90-generic",
        driver_version="6.14.14",
        buddy_format="F3",
        debugfs_by_address=True,
        silent_die_power=False,
        fdinfo="6.8",
        xcp_metrics=(1, 0),
        lacks=_NOT_OF_ROCM,
    ),
)
KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in _ALL}
