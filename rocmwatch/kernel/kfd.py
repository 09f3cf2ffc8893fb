r"""The compute driver's list of nodes: which partitions a GPU has, and how much VRAM is theirs.

    24248\n                 /sys/class/kfd/kfd/topology/nodes/2/gpu_id (0: a CPU)
    simd_count 80           .../properties, one "key value" a line
    location_id 2561
    domain 0
    drm_render_minor 129
    num_xcc 1
    heap_type 1             .../mem_banks/0/properties (1 and 2 are VRAM)
    size_in_bytes 51539607552
    2907979776\n            .../mem_banks/0/used_memory, ROCm's own driver only

Bytes. A partitioned GPU is one node for each partition. `location_id` is bus << 8 | device << 3 | function, and the
driver ORs the partition's number into its low three bits. On an APU the "VRAM" bank is its share of the host's memory.
Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c (node_show, mem_show); include/uapi/linux/kfd_sysfs.h.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import parse_number, parse_text

_VRAM_HEAPS = (1, 2)  # public and private frame buffer
_HIGH = 1 << 50


class KfdNode(NamedTuple):
    """One GPU node of the topology: a whole GPU, or one partition of it.

    Attributes:
        node: Its number in the topology.
        gpu_id: The number in the compute driver's file names (`vram_24248`).
        name: As the driver calls the chip; new ones are all `ip discovery`.
        pci: The PCI address that its location says; see `by_gpu` for partitions.
        render_minor: The M of its /dev/dri/renderDM.
        num_xcc: Compute dies in it.
        vram_total_bytes: The size of its VRAM banks.
        vram_used_bytes: Where the driver counts that.
        partition: The low three bits of its location: its number within the GPU when that is partitioned.
    """

    node: int
    gpu_id: int | None
    name: str | None
    pci: str | None
    render_minor: int | None
    num_xcc: int | None
    vram_total_bytes: int | None
    vram_used_bytes: int | None
    partition: int = 0


def parse_properties(raw: bytes) -> dict[str, int]:
    """A `properties` file: its "key value" lines. Lines of another form are left out."""
    properties = {}
    for line in raw.split(b"\n"):
        words = line.strip(b"\0 \t\r").split()
        if len(words) == 2 and words[1].isdigit() and len(words[1]) <= 20:
            properties[words[0].decode("ascii", "backslashreplace")] = int(words[1])
    return properties


def make_node(
    node: int, gpu_id: bytes | None, name: bytes | None, properties: bytes, banks: Sequence[tuple[bytes, bytes | None]]
) -> KfdNode | None:
    """One node from the bytes of its files; what cannot be read or understood is `None` in it.

    Args:
        node: Its number in the topology.
        gpu_id: The file of that name.
        name: The file of that name.
        properties: The file of that name; empty when the device cgroup forbids it (EPERM).
        banks: For each memory bank its `properties`, and its `used_memory` where there is one.

    Returns:
        `None` for a CPU.
    """
    number = _number(gpu_id)
    values = parse_properties(properties)
    if number == 0 or (values.get("simd_count", 0) == 0 and (values or number is None)):
        return None
    total, used = _vram(banks)
    return KfdNode(
        node=node,
        gpu_id=number,
        name=parse_text(name or b""),
        pci=_pci(values),
        render_minor=values.get("drm_render_minor") or None,
        num_xcc=values.get("num_xcc") or None,
        vram_total_bytes=total,
        vram_used_bytes=used,
        partition=values.get("location_id", 0) & 7,
    )


def by_gpu(nodes: Iterable[KfdNode], addresses: Collection[str] = ()) -> dict[str, tuple[KfdNode, ...]]:
    """The nodes of each GPU by its PCI address, in the order of their numbers.

    The function in a node's location is its own or, on a partitioned GPU, the partition's number; only the PCI bus
    knows which. A node whose location is the address of a GPU belongs to that GPU (virtual functions have functions);
    another one is a partition of the GPU at function 0. Where no GPU has either address, nodes that share bus and
    device are partitions. Nodes without a location are left out.

    Args:
        nodes: As they are listed.
        addresses: The PCI addresses of the node's GPUs.
    """
    devices: dict[str, list[KfdNode]] = {}
    for node in sorted(nodes, key=lambda one: one.node):
        if node.pci is not None:
            devices.setdefault(node.pci.rpartition(".")[0], []).append(node)
    gpus: dict[str, tuple[KfdNode, ...]] = {}
    for device, members in devices.items():
        first = f"{device}.0"
        partitioned = first in addresses or len(members) > 1
        for member in members:
            own = str(member.pci)
            pci = own if own in addresses or not partitioned else first
            gpus[pci] = (*gpus.get(pci, ()), member._replace(pci=pci))
    return gpus


def _number(raw: bytes | None) -> int | None:
    if raw is None:
        return None
    try:
        return parse_number(raw, 0, _HIGH)
    except ParseError:
        return None


def _pci(values: dict[str, int]) -> str | None:
    location = values.get("location_id", 0)
    domain = values.get("domain", 0)
    if not 0 < location <= 0xFFFF or domain > 0xFFFFFFFF:
        return None
    return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _vram(banks: Sequence[tuple[bytes, bytes | None]]) -> tuple[int | None, int | None]:
    """(total, used) bytes over the VRAM banks; each `None` unless every one of them says it."""
    totals: list[int | None] = []
    useds: list[int | None] = []
    for raw, used in banks:
        bank = parse_properties(raw)
        if bank.get("heap_type") in _VRAM_HEAPS:
            totals.append(bank.get("size_in_bytes"))
            useds.append(_number(used))
    return _sum(totals), _sum(useds)


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
