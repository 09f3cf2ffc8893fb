import dataclasses

from rocmwatch.kernel.memory import MEMORY
from rocmwatch.model import GpuSample


def test_every_counter_is_a_field_of_the_model():
    fields = {field.name for field in dataclasses.fields(GpuSample)}
    assert set() == {field.name for field in MEMORY} - fields


def test_every_name_and_every_file_stands_there_once():
    assert len(MEMORY) == len({field.name for field in MEMORY}) == len({field.file for field in MEMORY})


def test_a_total_cannot_be_0_and_a_use_can():
    lows = {field.name: field.low for field in MEMORY}
    assert tuple(
        lows[name] for name in ("vram_total_bytes", "vram_used_bytes", "gtt_total_bytes", "gtt_used_bytes")
    ) == (1, 0, 1, 0)
