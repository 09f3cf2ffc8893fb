"""The compute driver's picture of the node: /sys/class/kfd/kfd/topology.

CPU nodes come first, then one node for each partition of each GPU. A GPU's memory bank is the memory that compute
buffers go to: VRAM (a partition's share of it), or GTT on a unified-memory APU.
Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c (node_show, mem_show), amdgpu/amdgpu_amdkfd.c.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from rocmwatch.simulate.motion import State, draw
from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.places import DrmDevice, Place
from rocmwatch.simulate.tree import Tree, number_line

KFD = "sys/devices/virtual/kfd/kfd"
_PAGE = 4096


def add_topology(tree: Tree, model: Model, gpus: tuple[Place, ...], seed: int, generation: int = 2) -> None:
    """Adds /sys/class/kfd.

    Args:
        tree: Where to.
        model: The GPUs' model.
        gpus: Those that are there.
        seed: Gives this node its own numbers.
        generation: How often the driver has changed it.
    """
    tree.links["sys/class/kfd/kfd"] = KFD
    tree.links[f"{KFD}/subsystem"] = "sys/class/kfd"
    tree.text(KFD, dev="238:0", uevent="MAJOR=238\nMINOR=0\nDEVNAME=kfd")
    tree.folders.add(f"{KFD}/proc")
    tree.text(
        f"{KFD}/topology",
        generation_id=str(generation),
        system_properties="platform_oem 2314885604102193731\nplatform_id 87232116311372\nplatform_rev 2",
    )
    for number in range(model.host.sockets):
        _add_cpu(tree, model, number)
    hive = int(draw(seed, "hive") * (1 << 62)) | 1
    ids = gpu_ids(model, gpus)
    for gpu in gpus:
        for partition, node in enumerate(gpu.partition_nodes(model)):
            gpu_id = ids[gpu.index, partition]
            number = node_number(model, gpu, partition)
            _add_gpu_node(tree, model, gpu, (number, gpu_id), (partition, node, hive))


def gpu_ids(model: Model, gpus: tuple[Place, ...]) -> dict[tuple[int, int], int]:
    """The driver's number of each node, by the GPU's index and the partition."""
    taken: set[int] = set()
    return {
        (gpu.index, partition): _gpu_id(gpu.pci, partition, taken)
        for gpu in gpus
        for partition, _ in enumerate(gpu.partition_nodes(model))
    }


def node_number(model: Model, gpu: Place, partition: int) -> int:
    """The number of a partition's node: only the node's last GPU can lack some of its partitions."""
    return model.host.sockets + gpu.index * model.partition_count + partition


def moving_banks(model: Model, gpu: Place) -> dict[str, Callable[[State], bytes]]:
    """What is used of each partition's memory, which only ROCm's own driver shows, by path below the root."""
    if not model.kernel.has("used_memory"):
        return {}
    parts = len(gpu.partition_nodes(model))
    folders = [f"{KFD}/topology/nodes/{node_number(model, gpu, part)}/mem_banks/0" for part in range(parts)]
    return {
        f"{folder}/used_memory": lambda state: number_line(state.vram_used_bytes // model.partition_count)
        for folder in folders
    }


def bank_bytes(model: Model) -> int:
    """The size of the memory bank of one GPU node."""
    pool = model.gtt_total_bytes if model.pool == "gtt" else model.vram_total_bytes
    return pool // model.partition_count // _PAGE * _PAGE


def _gpu_id(pci: str, partition: int, taken: set[int]) -> int:
    """16 bits that are a GPU's (or partition's) own as long as the hardware stays; 0 is a CPU."""
    found = zlib.crc32(f"{pci}/{partition}".encode()) & 0xFFFF
    while found == 0 or found in taken:
        found = (found + 1) & 0xFFFF
    taken.add(found)
    return found


def _add_cpu(tree: Tree, model: Model, number: int) -> None:
    host = model.host
    folder = f"{KFD}/topology/nodes/{number}"
    tree.text(folder, gpu_id="0", name="")
    properties = dict.fromkeys(_CPU_PROPERTIES, 0)
    properties |= {
        "cpu_cores_count": host.cores,
        "mem_banks_count": 1,
        "cpu_core_id_base": number * host.cores,
        "max_engine_clk_ccompute": host.cpu_clock_mhz,
    }
    _add_numbers(tree, f"{folder}/properties", properties)
    _add_bank(
        tree,
        folder,
        {"heap_type": 0, "size_in_bytes": host.memory_bytes // host.sockets, "width": 64, "mem_clk_max": 4800},
    )


def _add_gpu_node(
    tree: Tree, model: Model, gpu: Place, identity: tuple[int, int], partition: tuple[int, DrmDevice, int]
) -> None:
    number, gpu_id = identity
    position, node, hive = partition
    kfd = model.kfd
    xccs = model.xcc_count // model.partition_count
    domain, bus, device = gpu.pci.split(":")
    folder = f"{KFD}/topology/nodes/{number}"
    tree.text(folder, gpu_id=str(gpu_id), name=kfd.name)
    properties = dict.fromkeys(_GPU_PROPERTIES, 0)
    properties |= {
        "simd_count": kfd.simds_per_xcc * xccs,
        "mem_banks_count": 1,
        "simd_id_base": 0x80000000 + (number << 6),
        "max_waves_per_simd": kfd.waves_per_simd,
        "lds_size_in_kb": 64,
        "num_gws": 64,
        "wave_front_size": kfd.wavefront,
        "array_count": kfd.arrays_per_xcc * xccs,
        "simd_arrays_per_engine": kfd.simd_arrays_per_engine,
        "cu_per_simd_array": kfd.cus_per_array,
        "simd_per_cu": kfd.simds_per_cu,
        "max_slots_scratch_cu": 32,
        "gfx_target_version": kfd.gfx_target_version,
        "vendor_id": 0x1002,
        "device_id": model.device_id,
        "location_id": int(bus, 16) << 8 | int(device.split(".")[0], 16) << 3 | position,
        "domain": int(domain, 16),
        "drm_render_minor": node.render_minor,
        "hive_id": hive if kfd.hive else 0,
        "num_sdma_engines": kfd.sdma_engines * xccs,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 24,
        "max_engine_clk_fcompute": model.sclk.levels_mhz[-1],
        "fw_version": 177,
        "capability": 2893521536,
        "debug_prop": 1511,
        "sdma_fw_version": 24,
        "unique_id": _unique_id(model, gpu, position),
        "num_xcc": xccs,
        "max_engine_clk_ccompute": model.host.cpu_clock_mhz,
    }
    known = {name: number for name, number in properties.items() if model.kernel.has(f"kfd/{name}")}
    _add_numbers(tree, f"{folder}/properties", known)
    _add_bank(
        tree,
        folder,
        {
            "heap_type": 1,
            "size_in_bytes": bank_bytes(model),
            "width": kfd.memory_width,
            "mem_clk_max": model.mclk.levels_mhz[-1],
        },
    )


def _unique_id(model: Model, gpu: Place, partition: int) -> int:
    if not model.has_unique_id:
        return 0
    own = model.partition_count > 1 and model.kernel.has("kfd/unique_id of a partition")
    return gpu.unique_id + partition if own else gpu.unique_id


def _add_bank(tree: Tree, folder: str, numbers: dict[str, int]) -> None:
    _add_numbers(tree, f"{folder}/mem_banks/0/properties", {"heap_type": 0, "size_in_bytes": 0, "flags": 0} | numbers)


def _add_numbers(tree: Tree, path: str, numbers: dict[str, int]) -> None:
    tree.files[path] = "".join(f"{name} {number}\n" for name, number in numbers.items()).encode()


# In the kernel's order; a CPU node has those of the first table, and then its clock.
_CPU_PROPERTIES = (
    "cpu_cores_count",
    "simd_count",
    "mem_banks_count",
    "caches_count",
    "io_links_count",
    "p2p_links_count",
    "cpu_core_id_base",
    "simd_id_base",
    "max_waves_per_simd",
    "lds_size_in_kb",
    "gds_size_in_kb",
    "num_gws",
    "wave_front_size",
    "array_count",
    "simd_arrays_per_engine",
    "cu_per_simd_array",
    "simd_per_cu",
    "max_slots_scratch_cu",
    "gfx_target_version",
    "vendor_id",
    "device_id",
    "location_id",
    "domain",
    "drm_render_minor",
    "hive_id",
    "num_sdma_engines",
    "num_sdma_xgmi_engines",
    "num_sdma_queues_per_engine",
    "num_cp_queues",
)
_GPU_PROPERTIES = (
    *_CPU_PROPERTIES,
    "max_engine_clk_fcompute",
    "local_mem_size",
    "fw_version",
    "capability",
    "debug_prop",
    "sdma_fw_version",
    "unique_id",
    "num_xcc",
)
