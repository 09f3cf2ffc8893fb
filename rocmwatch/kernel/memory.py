r"""The driver's memory counters.

    206141652992\n          /sys/class/drm/card1/device/mem_info_vram_total
    60129542144\n           .../mem_info_vram_used: all that is allocated, page tables and the kernel's own included

Bytes, decimal. `vis_vram` is the part that the CPU can address (equal to all of it with a large BAR), `gtt` are pages
of the host's memory that the GPU can use: on an APU the models live there. The numbers are of the whole GPU, whatever
its partitions. Reading them neither wakes the GPU nor asks its firmware.
Source: drivers/gpu/drm/amd/amdgpu/amdgpu_vram_mgr.c, amdgpu_gtt_mgr.c (mem_info_*_show).
"""

from __future__ import annotations

from typing import NamedTuple

_HIGH = 1 << 50  # 1 PiB: more is a wrong number


class Field(NamedTuple):
    """A file with one number.

    Attributes:
        name: The model's name for it.
        file: Below `card<N>/device/`.
        low: The smallest number that can be true.
        high: The largest one.
    """

    name: str
    file: str
    low: int
    high: int


MEMORY: tuple[Field, ...] = (
    Field("vram_total_bytes", "mem_info_vram_total", 1, _HIGH),
    Field("vram_used_bytes", "mem_info_vram_used", 0, _HIGH),
    Field("visible_vram_total_bytes", "mem_info_vis_vram_total", 0, _HIGH),
    Field("visible_vram_used_bytes", "mem_info_vis_vram_used", 0, _HIGH),
    Field("gtt_total_bytes", "mem_info_gtt_total", 1, _HIGH),
    Field("gtt_used_bytes", "mem_info_gtt_used", 0, _HIGH),
)
