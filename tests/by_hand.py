"""A node's files read as a person with `cat`, `od` and the kernel's headers would: nothing of the product is used.

What comes out is the document of `rocmwatch sample`, as far as it is about the node and not about the moment.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

MOST_NODES = 64
SENSORS = {"edge": "edge", "junction": "junction", "mem": "memory"}
ALL_ONES = {"H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}
REASONS = ("prochot", "power", "socket_thermal", "vr_thermal", "hbm_thermal")

# gpu_metrics, by revision: where a number lies, of what type it is, and how many there are. Only what no text file has.
OFFSETS: dict[tuple[int, int], dict[str, tuple[int, str, int]]] = {
    (1, 3): {
        "umc": (18, "H", 1),
        "power": (22, "H", 1),
        "energy": (24, "Q", 1),
        "uclk": (58, "H", 1),
        "hbm": (88, "H", 4),
        "status": (112, "Q", 1),
    },
    (1, 5): {
        "power": (10, "H", 1),
        "umc": (14, "H", 1),
        "energy": (88, "Q", 1),
        "read": (176, "Q", 8),
        "written": (240, "Q", 8),
        "dies": (312, "H", 8),
        "uclk": (352, "H", 1),
    },
    (2, 1): {"uclk": (80, "H", 1), "mean_uclk": (68, "H", 1)},
    (3, 0): {"uclk": (186, "H", 1)},
}
for _revision, _partition_bytes in (((1, 7), 232), ((1, 8), 440)):
    OFFSETS[_revision] = {
        "power": (10, "H", 1),
        "umc": (14, "H", 1),
        "energy": (24, "Q", 1),
        "rounds": (40, "I", 6),
        "read": (136, "Q", 8),
        "written": (200, "Q", 8),
        "links": (264, "H", 8),
        "dies": (296, "H", 8),
        "uclk": (336, "H", 1),
        **{f"busy{number}": (344 + _partition_bytes * number, "I", 8) for number in range(8)},
    }
# Revision 1.9 numbers what it has.
NUMBERS = {
    3: "power",
    5: "umc",
    7: "energy",
    **{number: f"rounds{number - 9}" for number in range(9, 15)},
    29: "read",
    30: "written",
    31: "links",
    33: "dies",
    37: "uclk",
    40: "busy",
}
XCP_OFFSETS = {"dies": (4, "H", 8), "busy": (48, "I", 8)}  # of a partition's own file, 1.0

Numbers = dict[str, list[int | None]]


class KfdNode(NamedTuple):
    """What the compute driver says of one GPU or partition."""

    low: int
    minor: int
    dies: int
    bank_bytes: int
    used_bytes: int | None


def text(path: Path) -> str | None:
    """What `cat` shows; nothing when there is no such file, or nothing in it."""
    return (path.read_text().strip() or None) if path.is_file() else None


def number(path: Path) -> int | None:
    content = text(path)
    return None if content is None else int(content)


def scaled(value: int | None, unit: int) -> float | None:
    """In base units. No card is at 0 degrees, and none takes 0 W: then there is no such sensor."""
    return value / unit if value else None


# Binary files


def picked(raw: bytes, places: dict[str, tuple[int, str, int]]) -> Numbers:
    """The numbers at those places, without those that are all ones."""
    return {
        name: [
            None if value == ALL_ONES[form] else value for value in struct.unpack_from(f"<{count}{form}", raw, offset)
        ]
        for name, (offset, form, count) in places.items()
    }


def walked(raw: bytes) -> Numbers:
    """The numbers of a file that says of each attribute what it is."""
    found: Numbers = {}
    offset = 8
    for _ in range(struct.unpack_from("<i", raw, 4)[0]):
        (word,) = struct.unpack_from("<Q", raw, offset)
        kind, attribute, count = word >> 20 & 15, word >> 10 & 1023, word & 1023
        form = "BbHhIiQq"[kind]
        name = NUMBERS.get(attribute)
        if name:
            found |= picked(raw, {name: (offset + 8, form, count)})
        offset += 8 + struct.calcsize(f"<{count}{form}")
    assert len(raw) == offset
    return found


def gpu_metrics(device: Path) -> Numbers:
    raw = (device / "gpu_metrics").read_bytes()
    size, form, content = struct.unpack_from("<HBB", raw)
    assert len(raw) == size
    found = walked(raw) if (form, content) == (1, 9) else picked(raw, OFFSETS[form, content])
    if "rounds0" in found:
        found["rounds"] = [found[f"rounds{at}"][0] for at in range(6)]
    return found


def partition_metrics(folder: Path) -> Numbers | None:
    path = folder / "xcp/xcp_metrics"
    if not path.exists():
        return None
    raw = path.read_bytes()
    size, form, content = struct.unpack_from("<HBB", raw)
    assert len(raw) == size
    return {(1, 0): lambda: picked(raw, XCP_OFFSETS), (1, 1): lambda: walked(raw)}[form, content]()


# Text files


def hwmon(device: Path) -> dict[str, float]:
    """`temperature_junction`, `critical_junction`, `clock_sclk`, `power`, `power_cap`... in base units."""
    (folder,) = device.glob("hwmon/hwmon*")
    found: dict[str, float | None] = {}
    for label in folder.glob("temp*_label"):
        stem, sensor = str(label).removesuffix("_label"), SENSORS[str(text(label))]
        for kind, ending in (("temperature", "input"), ("critical", "crit"), ("emergency", "emergency")):
            found[f"{kind}_{sensor}"] = scaled(number(Path(f"{stem}_{ending}")), 1000)
    for label in folder.glob("freq*_label"):
        found[f"clock_{text(label)}"] = number(Path(str(label).replace("_label", "_input")))
    power = number(folder / "power1_input")
    found["power"] = scaled(number(folder / "power1_average") if power is None else power, 10**6)
    found["power_cap"] = scaled(number(folder / "power1_cap"), 10**6)
    return {name: value for name, value in found.items() if value is not None}


def highest_level(path: Path) -> float | None:
    levels = [int(mhz) * 10**6 for mhz in re.findall(r"\d: *(\d+)Mhz", text(path) or "")]
    return max(levels, default=None)


def link(device: Path) -> dict[str, float | None]:
    found: dict[str, float | None] = {"replays": number(device / "pcie_replay_count")}
    for name, file in (("", "current"), ("max_", "max")):
        speed = re.fullmatch(r"([\d.]+) GT/s PCIe", text(device / f"{file}_link_speed") or "")
        found[f"{name}width"] = number(device / f"{file}_link_width")
        found[f"{name}transfers_per_second"] = float(speed[1]) * 1e9 if speed else None
    return found


def errors(device: Path) -> dict[str, dict[str, int | None]] | None:
    found = {}
    for path in device.glob("ras/*_err_count"):
        counts = {kind: int(count) for kind, count in re.findall(r"(ue|ce|de): (\d+)", path.read_text())}
        found[path.name.removesuffix("_err_count")] = {
            "uncorrectable": counts["ue"],
            "correctable": counts["ce"],
            "deferred": counts.get("de"),
        }
    return found or None


def free_runs(table: str) -> Iterator[tuple[int, int]]:
    """The free blocks of a table of any format, as (first page, page behind it). Where a block lies, or only its size:
    blocks of a known order lie at a multiple of their size, so any such place will do."""
    for start, end in re.findall(r"^0x([0-9a-f]{16})-0x([0-9a-f]{16}): \d+: free$", table, re.MULTILINE):
        yield int(start, 16), int(end, 16)
    pattern = r"^order- *(\d+) free: .*?(?:pages|blocks|free_blocks): (\d+)"
    for order, count in re.findall(pattern, table, re.MULTILINE):
        for _ in range(int(count)):
            yield 0, 1 << int(order)


def within(start: int, end: int, size: int) -> int:
    """How many pages of a free run belong to whole blocks of that size, which lie at multiples of it."""
    return max(0, end // size * size - -(-start // size) * size)


def fragmentation(root: Path, pci: str, minor: str) -> dict[str, float | None] | None:
    folders = (root / "sys/kernel/debug/dri" / name for name in (pci, minor))
    table = next((folder / "amdgpu_vram_mm" for folder in folders if folder.is_dir()), None)
    if table is None or not table.is_file():
        return None
    runs = list(free_runs(table.read_text()))
    free = 4096 * sum(end - start for start, end in runs)
    allocatable = 4096 * sum(within(start, end, 512) for start, end in runs)
    sizes = (1 << order for order in range(40, -1, -1))
    largest = next((size for size in sizes if any(within(start, end, size) for start, end in runs)), 0)
    return {
        "ratio": None if free < 1 << 30 else 1 - allocatable / free,
        "allocatable_bytes": allocatable,
        "largest_free_block_bytes": 4096 * largest,
    }


def kfd_nodes(root: Path, pci: str) -> list[KfdNode]:
    """The compute driver's nodes of one GPU, in its order."""
    domain, bus, rest = pci.split(":")
    found = []
    folders = (root / f"sys/class/kfd/kfd/topology/nodes/{node}" for node in range(MOST_NODES + 8))
    for folder in takewhile(Path.is_dir, folders):
        values = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", _said(folder), re.MULTILINE)}
        location = values.get("location_id", 0)
        here = (values.get("domain", 0), location >> 8, location >> 3 & 31)
        if number(folder / "gpu_id") and here == (int(domain, 16), int(bus, 16), int(rest.split(".")[0], 16)):
            bank = re.search(r"^size_in_bytes (\d+)$", str(text(folder / "mem_banks/0/properties")), re.MULTILINE)
            assert bank
            used = number(folder / "mem_banks/0/used_memory")
            minor, dies = values["drm_render_minor"], values.get("num_xcc", 1)
            found.append(KfdNode(location & 7, minor, dies, int(bank[1]), used))
    return found


def _said(folder: Path) -> str:
    return text(folder / "properties") or ""


# The document


def cards(root: Path) -> list[tuple[str, str]]:
    """(PCI address, minor) of every card of the driver, by address."""
    found = []
    for card in (root / "sys/class/drm").iterdir():
        uevent = (card / "device/uevent").read_text() if re.fullmatch(r"card\d+", card.name) else ""
        address = re.search(r"^DRIVER=amdgpu$.*^PCI_SLOT_NAME=(\S+)$", uevent, re.MULTILINE | re.DOTALL)
        if address:
            found.append((address[1], card.name.removeprefix("card")))
    return sorted(found)


def gpus(root: Path, before: Sequence[Numbers] = ()) -> list[dict[str, Any]]:
    """What the document says of each GPU.

    Args:
        root: The node.
        before: `gpu_metrics` of each of them at the reading before.
    """
    return [
        gpu(root, str(index), pci, minor, before[index] if before else None)
        for index, (pci, minor) in enumerate(cards(root))
    ]


def all_metrics(root: Path) -> list[Numbers]:
    """`gpu_metrics` of each GPU."""
    return [gpu_metrics(root / f"sys/bus/pci/devices/{pci}") for pci, _ in cards(root)]


def gpu(root: Path, name: str, pci: str, minor: str, before: Numbers | None) -> dict[str, Any]:
    device = root / f"sys/class/drm/card{minor}/device"
    metrics, sensors, nodes = gpu_metrics(device), hwmon(device), kfd_nodes(root, pci)
    memory = {
        f"{kind}_{part}_bytes": number(device / f"mem_info_{kind}_{part}")
        for kind in ("vram", "gtt")
        for part in ("total", "used")
    }
    pool = "gtt" if max(node.bank_bytes for node in nodes) > (memory["vram_total_bytes"] or 0) else "vram"
    dies = metrics.get("dies", [])
    running = [mhz for mhz in dies if mhz is not None]
    sclk = max(running) * 10**6 if running else sensors.get("clock_sclk")
    return {
        "gpu": name,
        "pci": pci,
        "state": text(device / "power/runtime_status"),
        "product": text(device / "product_name"),
        "pool": pool,
        "pool_total_bytes": memory[f"{pool}_total_bytes"],
        "pool_used_bytes": memory[f"{pool}_used_bytes"],
        **memory,
        "temperatures_celsius": {sensor: sensors.get(f"temperature_{sensor}") for sensor in SENSORS.values()},
        "clocks_hertz": {"sclk": sclk, "mclk": sensors.get("clock_mclk", _first(metrics, "uclk", 10**6))},
        "xcc_clocks_hertz": {str(die): mhz * 10**6 for die, mhz in enumerate(dies) if mhz is not None},
        "power_watts": sensors.get("power"),
        "energy_joules": _energy(metrics),
        "busy_ratio": {
            "gfx": scaled_percent(number(device / "gpu_busy_percent")),
            "memory": scaled_percent(number(device / "mem_busy_percent")),
        },
        "throttle_ratio": _shares(metrics, before),
        "throttled": _throttled(metrics),
        "limits": {
            "temperatures_celsius": {
                sensor: {limit: sensors.get(f"{limit}_{sensor}") for limit in ("critical", "emergency")}
                for sensor in SENSORS.values()
            },
            "clocks_hertz": {clock: highest_level(device / f"pp_dpm_{clock}") for clock in ("sclk", "mclk")},
            "power_cap_watts": sensors.get("power_cap"),
        },
        "pcie": link(device),
        "xgmi": _xgmi(metrics),
        "ras_errors": errors(device),
        "fragmentation": fragmentation(root, pci, minor),
        "partitions": list(_partitions(root, nodes, metrics)) if len(nodes) > 1 else [],
        "faults": [],
    }


def scaled_percent(value: int | None) -> float | None:
    return None if value is None else value / 100


def _first(metrics: Numbers, name: str, factor: float) -> float | None:
    value = metrics.get(name, [None])[0]
    return None if value is None else value * factor


def _energy(metrics: Numbers) -> float | None:
    """In 1.3 its unit is that of the header only on cards with HBM."""
    known = None not in metrics.get("hbm", [])
    return (_first(metrics, "energy", 2.0**-16) or None) if known else None


def _shares(metrics: Numbers, before: Numbers | None) -> dict[str, float | None]:
    if before is None or "rounds" not in metrics:
        return dict.fromkeys(REASONS)
    rounds, *grown = (now - then for now, then in zip(_known(metrics), _known(before), strict=True))
    return {reason: held / rounds for reason, held in zip(REASONS, grown, strict=True)}


def _known(metrics: Numbers) -> list[int]:
    return [value for value in metrics["rounds"] if value is not None]


def _throttled(metrics: Numbers) -> dict[str, int | None]:
    status = metrics.get("status", [None])[0]
    if status is None:
        return dict.fromkeys(("power", "current", "thermal", "prochot"))
    bits = {at for at in range(64) if status >> at & 1}
    groups = {"power": range(16), "current": range(16, 32), "thermal": range(32, 46), "prochot": range(46, 48)}
    return {reason: int(not bits.isdisjoint(group)) for reason, group in groups.items()}


def _xgmi(metrics: Numbers) -> dict[str, dict[str, int]] | None:
    if "read" not in metrics:
        return None
    links = metrics.get("links", [1] * 8)
    return {
        f"{name}_bytes": {
            str(at): 1024 * moved
            for at, moved in enumerate(metrics[key])
            if moved or (moved == 0 and links[at] is not None)
        }
        for name, key in (("read", "read"), ("write", "written"))
    }


def _partitions(root: Path, nodes: list[KfdNode], metrics: Numbers) -> Iterator[dict[str, Any]]:
    first = 0
    for node in nodes:
        dies = slice(first, first + node.dies)
        first += node.dies
        own = partition_metrics(root / f"sys/class/drm/renderD{node.minor}/device")
        if own is None:
            busy = metrics.get(f"busy{node.low}") or metrics.get("busy", [])[dies]
            own = {"dies": metrics.get("dies", [])[dies], "busy": busy}
        busy_dies = [percent for percent in own["busy"] if percent is not None]
        clocks = [mhz * 10**6 for mhz in own["dies"] if mhz is not None]
        yield {
            "partition": str(node.low),
            "vram_total_bytes": node.bank_bytes,
            "vram_used_bytes": node.used_bytes,
            "busy_ratio": sum(busy_dies) / len(busy_dies) / 100 if busy_dies else None,
            "sclk_hertz": max(clocks, default=None),
        }
