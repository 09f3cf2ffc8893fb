"""Which memory models live in on a GPU, read off the kernel's own numbers.

A discrete card computes in its VRAM. On a unified-memory APU the VRAM is a small carve-out of the system's memory,
nearly full when idle, and compute buffers go to GTT. Two signs of that, neither of which is a list of names:

- KFD announces a memory bank of the size of GTT, not of VRAM (amdkfd does so where the driver prefers GTT for compute);
- without KFD: gpu_metrics comes in an APU's format (2.x, 3.x) and GTT is larger than VRAM.

Sources: drivers/gpu/drm/amd/amdkfd/kfd_topology.c, amdgpu_gmc.c. A driver that reports no VRAM at all leaves only GTT.
"""

from collections.abc import Collection

_APU_METRICS = (2, 3)


def choose_pool(
    *,
    vram_total_bytes: int | None,
    gtt_total_bytes: int | None,
    bank_bytes: Collection[int],
    metrics_format: int | None,
) -> str:
    """`vram` or `gtt`.

    Args:
        vram_total_bytes: mem_info_vram_total.
        gtt_total_bytes: mem_info_gtt_total.
        bank_bytes: Size of the memory of each of the GPU's KFD nodes; empty without KFD.
        metrics_format: format_revision of gpu_metrics.
    """
    if not gtt_total_bytes:
        return "vram"
    if not vram_total_bytes:
        return "gtt"
    if any(bank_bytes):
        return "gtt" if max(bank_bytes) > vram_total_bytes else "vram"
    return "gtt" if metrics_format in _APU_METRICS and gtt_total_bytes > vram_total_bytes else "vram"
