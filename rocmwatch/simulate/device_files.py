"""The files of one GPU, as the driver names and prints them: those that stand still, those that move with its state.

Source: drivers/gpu/drm/amd/pm/amdgpu_pm.c (hwmon, clocks, busy), amdgpu_vram_mgr.c and amdgpu_gtt_mgr.c (mem_info_*),
amdgpu_fru_eeprom.c, amdgpu_gfx.c (partitions), amdgpu_xgmi.c, amdgpu_ras.c, drivers/pci/pci-sysfs.c.
"""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate.buddy_text import Allocator, buddy_text
from rocmwatch.simulate.hwmon_files import Render, add_still_hwmon, moving_hwmon
from rocmwatch.simulate.metrics import gpu_metrics, partition_metrics
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import Clock, Kernel, Model
from rocmwatch.simulate.places import Place
from rocmwatch.simulate.topology import moving_banks
from rocmwatch.simulate.tree import Tree, number_line


def moving_files(model: Model, place: Place) -> dict[str, Render]:
    """The files of a GPU that change with its state, by path below the root."""
    silent = model.is_silent(place.index)
    files: dict[str, Render] = {
        "mem_info_vram_used": lambda state: number_line(state.vram_used_bytes),
        "mem_info_vis_vram_used": lambda state: number_line(state.vram_used_bytes),
        "mem_info_gtt_used": lambda state: number_line(state.gtt_used_bytes),
        "gpu_busy_percent": lambda state: number_line(int(100 * state.busy_gfx)),
        "gpu_metrics": lambda state: gpu_metrics(model, _muted(state) if silent else state),
        model.sclk.dpm_file: lambda state: _levels(model.kernel, model.sclk, state.sclk_mhz[0]),
        model.mclk.dpm_file: lambda state: _levels(model.kernel, model.mclk, state.mclk_mhz),
    }
    if model.has_memory_busy:
        files["mem_busy_percent"] = lambda state: number_line(int(100 * state.busy_memory))
    for block in model.ras_blocks:
        files[f"ras/{block}_err_count"] = _error_counts(model, block)
    files = {f"{place.device}/{name}": render for name, render in files.items()}
    if model.partitioning and model.kernel.has("xcp/xcp_metrics"):
        for partition, node in enumerate(place.partition_nodes(model)):
            files[f"{node.path}/xcp/xcp_metrics"] = _partition_metrics(model, partition)
    return files | moving_hwmon(model, place) | moving_banks(model, place)


def _partition_metrics(model: Model, partition: int) -> Render:
    return lambda state: partition_metrics(model, state, partition)


def _error_counts(model: Model, block: str) -> Render:
    """Errors of one block of the chip. Reading them asks the hardware, so a monitor reads them seldom."""
    lines = {"ue": "uncorrectable", "ce": "correctable"}
    if block == "umc" and model.kernel.has("ras/umc_err_count#de"):
        lines["de"] = "deferred"

    def render(state: State) -> bytes:
        counts = (f"{word}: {state.ras.get((block, severity), 0)}\n" for word, severity in lines.items())
        return "".join(counts).encode()

    return render


def _muted(state: State) -> State:
    """What a second die says of it: its sister speaks for both."""
    return replace(state, power_watts=0.0, energy_joules=0.0)


def table_text(model: Model, state: State) -> bytes:
    """The bytes of debugfs' amdgpu_vram_mm."""
    allocator = Allocator(
        total_bytes=model.vram_total_bytes,
        used_bytes=state.vram_used_bytes,
        visible_used_bytes=state.vram_used_bytes,
        free_blocks=state.free_blocks,
        clear_free_bytes=state.clear_free_bytes,
        reserved=((model.vram_total_bytes - (32 << 20), 4096),),
    )
    return buddy_text(allocator, model.kernel.buddy_format)


def add_still_files(tree: Tree, model: Model, place: Place) -> None:
    """Adds everything below the device's folder that does not move."""
    _add_pci(tree, model, place)
    _add_memory_and_identity(tree, model, place)
    add_still_hwmon(tree, model, place)
    add_no_power(tree, place.hwmon)
    _add_ras(tree, model, place)


def _add_pci(tree: Tree, model: Model, place: Place) -> None:
    vendor, subsystem = model.subsystem
    speed, width = model.link
    modalias = (
        f"pci:v00001002d{model.device_id:08X}sv{vendor:08X}sd{subsystem:08X}"
        f"bc{model.pci_class >> 16:02X}sc{model.pci_class >> 8 & 0xFF:02X}i{model.pci_class & 0xFF:02X}"
    )
    tree.text(
        place.device,
        **{"class": f"0x{model.pci_class:06x}"},
        vendor="0x1002",
        device=f"0x{model.device_id:04x}",
        subsystem_vendor=f"0x{vendor:04x}",
        subsystem_device=f"0x{subsystem:04x}",
        revision=f"0x{model.revision:02x}",
        uevent=(
            f"DRIVER=amdgpu\nPCI_CLASS={model.pci_class:X}\nPCI_ID=1002:{model.device_id:04X}\n"
            f"PCI_SUBSYS_ID={vendor:04X}:{subsystem:04X}\nPCI_SLOT_NAME={place.pci}\nMODALIAS={modalias}"
        ),
        modalias=modalias,
        current_link_speed=speed,
        current_link_width=str(width),
        max_link_speed=speed,
        max_link_width=str(width),
        numa_node=str(place.numa_node),
        local_cpulist=_cpulist(model, place),
        power_state="D0",
        enable="1",
        irq=str(140 + place.index),
        d3cold_allowed="1",
        driver_override="(null)",
    )
    add_power(tree, place.device, control="on", enabled="forbidden", status="active")
    tree.files[f"{place.device}/config"] = bytes.fromhex("0210") + model.device_id.to_bytes(2, "little") + bytes(60)
    tree.files[f"{place.device}/remove"] = b""
    tree.files[f"{place.device}/reset"] = b""
    tree.files[f"{place.device}/rescan"] = b""


def _cpulist(model: Model, place: Place) -> str:
    first = max(place.numa_node, 0) * model.host.cores
    return f"{first}-{first + model.host.cores - 1}"


def add_power(tree: Tree, folder: str, *, control: str, enabled: str, status: str) -> None:
    """Adds `power/` of a device that the kernel could put to sleep."""
    tree.text(
        f"{folder}/power",
        control=control,
        runtime_enabled=enabled,
        runtime_status=status,
        runtime_active_time="0",
        runtime_suspended_time="0",
        runtime_usage="0",
    )


def add_no_power(tree: Tree, folder: str) -> None:
    """Adds `power/` of a device that is none of its own to the power management."""
    tree.text(f"{folder}/power", control="auto", runtime_status="unsupported")


def _add_memory_and_identity(tree: Tree, model: Model, place: Place) -> None:
    files = {
        "mem_info_vram_total": str(model.vram_total_bytes),
        "mem_info_vis_vram_total": str(model.vram_total_bytes),
        "mem_info_gtt_total": str(model.gtt_total_bytes),
        "vbios_version": model.vbios,
        **dict(model.attributes),
        **dict(model.forbidden),
    }
    if model.has_unique_id:
        files["unique_id"] = f"{place.unique_id:016x}"
    if model.board:
        files |= {
            "board_info": f"type : {model.board}",
            "product_name": model.product,
            "product_number": f"102-SIM{model.device_id:04X}-00",
            "serial_number": place.serial,
            "manufacturer": "AMD",
            "fru_id": "0",
        }
    if model.kfd.hive:
        files |= {
            "xgmi_device_id": f"{place.unique_id:#x}",
            "xgmi_physical_id": str(place.index),
            "xgmi_num_hops": "".join("00 " if peer == place.index else "01 " for peer in range(len(model.pci))),
            "xgmi_num_links": "".join("00 " if peer == place.index else "01 " for peer in range(len(model.pci))),
        }
    if model.partitioning:
        files |= {
            "current_compute_partition": model.partitioning.compute,
            "available_compute_partition": model.partitioning.available_compute,
            "current_memory_partition": model.partitioning.memory,
            "available_memory_partition": model.partitioning.available_memory,
        }
    tree.text(place.device, **{name: text for name, text in files.items() if model.kernel.has(name)})
    tree.text(f"{place.device}/fw_version", smc_fw_version="0x00557d00", mec_fw_version="0x000000b1")


def _add_ras(tree: Tree, model: Model, place: Place) -> None:
    """What lies beside the counters of errors."""
    if not model.ras_blocks:
        return
    folder = f"{place.device}/ras"
    tree.text(folder, features="feature mask: 0x3fff", version="table version: 0x30000", schema="schema: 0x3fff")
    tree.files[f"{folder}/gpu_vram_bad_pages"] = b""
    if model.kernel.has("ras/event_state"):
        tree.text(folder, event_state="Fatal Error: count:0, last_seqno:0\nPoison Creation: count:0, last_seqno:0")


def _levels(kernel: Kernel, clock: Clock, mhz: int) -> bytes:
    """The list of levels, a star behind the current one."""
    levels = clock.levels_mhz
    if mhz < clock.deep_sleep_mhz or (kernel.marks_deep_sleep and mhz < levels[0] / 2):
        first = 1 if kernel.marks_deep_sleep else 0
        return b"S: %dMhz *\n" % mhz + b"".join(b"%d: %dMhz\n" % level for level in enumerate(levels, first))
    if clock.fine_grained and mhz not in levels:
        return _starred((levels[0], mhz, levels[-1]), mhz)
    return _starred(levels, mhz)


def _starred(levels: tuple[int, ...], mhz: int) -> bytes:
    current = min(range(len(levels)), key=lambda level: abs(levels[level] - mhz))
    lines = (b"%d: %dMhz %s\n" % (level, mhz, b"*" if level == current else b"") for level, mhz in enumerate(levels))
    return b"".join(lines)
