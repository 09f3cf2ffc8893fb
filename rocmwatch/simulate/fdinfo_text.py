r"""/proc/PID/fdinfo/FD of an open render node, in the words of each kernel.

    5.15    pdev:\t0000:05:00.0         vram mem:\t1048576 kB
    6.1     drm-pdev:\t0000:05:00.0     drm-memory-vram:\t1048576 KiB
    6.5     the same, and               amd-evicted-vram:\t0 KiB
    6.8     the DRM core's lines first, drm-shared-vram:\t0 KiB
    7.3     drm-total-vram:\t1024 MiB   drm-resident-vram:\t1024 MiB, in the largest unit that divides it

Source: drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c, drivers/gpu/drm/drm_file.c (drm_print_memory_stats).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocmwatch.simulate.processes import Client

_Lines = Iterator[tuple[str, str]]
_KIB = 1024
_UNITS = ("", " KiB", " MiB")
_OTHER_REGIONS = ("gds", "gws", "oa", "doorbell", "mmioremap")
_GAPS = dict.fromkeys(("drm-memory-gtt", "drm-memory-cpu"), " \t")  # so does the driver, where it says these
_FENCE_CONTEXTS = 2880  # before 6.8 a client's number is one of the driver's fence contexts


def fdinfo_text(kernel: str, client: Client, pasid: int) -> bytes:
    """The file's bytes.

    Args:
        kernel: `Kernel.fdinfo`.
        client: Whose.
        pasid: Its address space.
    """
    lines = [("pos", "0"), ("flags", "02100002"), ("mnt_id", "26"), ("ino", "1099"), *_WORDS[kernel](client, pasid)]
    return "".join(f"{key}:{_GAPS.get(key, chr(9))}{value}\n" for key, value in lines).encode()


def _in_5_15(client: Client, pasid: int) -> _Lines:
    yield "pdev", client.pci
    yield "pasid", str(pasid)
    yield "vram mem", f"{client.vram_bytes // _KIB} kB"
    yield "gtt mem", f"{client.gtt_bytes // _KIB} kB"
    yield "cpu mem", "0 kB"


def _in_6_1(client: Client, pasid: int) -> _Lines:
    yield "pasid", str(pasid)
    yield "drm-driver", "amdgpu"
    yield "drm-pdev", client.pci
    yield "drm-client-id", str(_FENCE_CONTEXTS + client.number)
    yield from _mapped(client)


def _in_6_5(client: Client, pasid: int) -> _Lines:
    yield from _in_6_1(client, pasid)
    yield from _evicted(client, visible=True)


def _in_6_8(client: Client, pasid: int) -> _Lines:
    yield "drm-driver", "amdgpu"
    yield "drm-client-id", str(client.number)
    yield "drm-pdev", client.pci
    yield "pasid", str(pasid)
    yield from _mapped(client)
    yield from _evicted(client, visible=True)
    for region in ("vram", "gtt", "cpu"):
        yield f"drm-shared-{region}", "0 KiB"


def _in_7_3(client: Client, pasid: int) -> _Lines:
    yield "drm-driver", "amdgpu"
    yield "drm-client-id", str(client.number)
    yield "drm-pdev", client.pci
    yield "pasid", str(pasid)
    sizes = {"cpu": 0, "gtt": client.gtt_bytes, "vram": client.vram_bytes, **dict.fromkeys(_OTHER_REGIONS, 0)}
    for region, size in sizes.items():
        total = size + (client.evicted_bytes if region == "vram" else 0)
        yield f"drm-total-{region}", _scaled(total)
        yield f"drm-shared-{region}", "0"
        yield f"drm-resident-{region}", _scaled(size)
        yield f"drm-purgeable-{region}", "0"
    yield from _mapped(client)
    yield from _evicted(client, visible=False)


def _mapped(client: Client) -> _Lines:
    yield "drm-memory-vram", f"{client.vram_bytes // _KIB} KiB"
    yield "drm-memory-gtt", f"{client.gtt_bytes // _KIB} KiB"
    yield "drm-memory-cpu", "0 KiB"


def _evicted(client: Client, *, visible: bool) -> _Lines:
    wanted = (client.vram_bytes + client.evicted_bytes) // _KIB
    if visible:
        yield "amd-memory-visible-vram", f"{client.vram_bytes // _KIB} KiB"
    yield "amd-evicted-vram", f"{client.evicted_bytes // _KIB} KiB"
    if visible:
        yield "amd-evicted-visible-vram", "0 KiB"
    yield "amd-requested-vram", f"{wanted} KiB"
    if visible:
        yield "amd-requested-visible-vram", "0 KiB"
    yield "amd-requested-gtt", f"{client.gtt_bytes // _KIB} KiB"


def _scaled(size: int) -> str:
    """In the largest unit that divides it; as bytes without one."""
    unit = 0
    while unit < len(_UNITS) - 1 and size and size % _KIB == 0:
        size //= _KIB
        unit += 1
    return f"{size}{_UNITS[unit]}"


_WORDS: dict[str, Callable[[Client, int], _Lines]] = {
    "5.15": _in_5_15,
    "6.1": _in_6_1,
    "6.5": _in_6_5,
    "6.8": _in_6_8,
    "7.3": _in_7_3,
}
