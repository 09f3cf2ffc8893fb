"""`hung-gpu`: one GPU stops answering for two minutes, while the others go on.

In a driver, the read itself would not return. A file tree can only make an open hang: the names of some files are
FIFOs meanwhile. Who has the files open goes on reading the last values from them, so that a reader notices when it
opens one the next time: what it reads seldom (names, modes), the table of free blocks, or all of them when it starts.
"""

from __future__ import annotations

from rocmwatch.simulate.scenarios.healthy import live
from rocmwatch.simulate.scenarios.scene import BEGINS_AT, Cast, Change, Scenario, Scene, Spell, Trouble, engines_of

_HANGS = Spell(first=BEGINS_AT, lasts=120.0, every=420.0)
# Every one is the driver's: of what the PCI core answers (uevent, vendor) nothing hangs.
_FILES = (
    "current_compute_partition",
    "debugfs/amdgpu_vram_mm",
    "gpu_busy_percent",
    "gpu_metrics",
    "mem_info_gtt_total",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "vbios_version",
)


def scene(cast: Cast, seconds: float) -> Scene:
    """The victim's files, which hang for a while."""
    files: dict[tuple[int, str], Change] = {}
    if _HANGS.holds(seconds):
        files = {(cast.victim, name): Trouble.HANGS for name in _FILES}
    return Scene(engines=engines_of(cast, seconds), files=files)


HUNG_GPU = Scenario(name="hung-gpu", summary="one GPU stops answering for two minutes", live=live, scene=scene)
