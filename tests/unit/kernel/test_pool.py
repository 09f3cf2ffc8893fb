import pytest

from rocmwatch.kernel.pool import choose_pool

GIB = 1 << 30


@pytest.mark.parametrize(
    ("vram", "gtt", "banks", "metrics_format", "pool"),
    [
        pytest.param(192 * GIB, 1007 * GIB, [192 * GIB], 1, "vram", id="a discrete card in a large host"),
        pytest.param(192 * GIB, 1007 * GIB, [24 * GIB] * 8, 1, "vram", id="its partitions"),
        pytest.param(192 * GIB, 1007 * GIB, [], 1, "vram", id="without KFD"),
        pytest.param(192 * GIB, 1007 * GIB, [], None, "vram", id="without anything"),
        pytest.param(GIB // 2, 60 * GIB, [60 * GIB], 3, "gtt", id="an APU"),
        pytest.param(GIB // 2, 60 * GIB, [60 * GIB], None, "gtt", id="an APU whose metrics could not be read"),
        pytest.param(GIB // 2, 60 * GIB, [], 3, "gtt", id="an APU without KFD"),
        pytest.param(96 * GIB, 15 * GIB, [], 3, "vram", id="an APU given a large carve-out"),
        pytest.param(96 * GIB, 15 * GIB, [96 * GIB], 3, "vram", id="the same with KFD"),
        pytest.param(None, 100 * GIB, [], 1, "gtt", id="no VRAM at all"),
        pytest.param(16 * GIB, None, [], 1, "vram", id="no GTT"),
        pytest.param(None, None, [], None, "vram", id="nothing known"),
    ],
)
def test_the_pool_is_where_models_live(vram, gtt, banks, metrics_format, pool):
    assert pool == choose_pool(
        vram_total_bytes=vram, gtt_total_bytes=gtt, bank_bytes=banks, metrics_format=metrics_format
    )
