from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocmwatch.kernel.gpu_metrics import parse_gpu_metrics
from rocmwatch.kernel.gpu_metrics_layouts import ATTRIBUTE_TABLE, LAYOUTS, SIZES, XCP_LAYOUTS
from rocmwatch.kernel.xcp_metrics import PartitionDecoder
from rocmwatch.simulate import KERNELS, MODELS
from rocmwatch.simulate.encode import encode, encode_partition
from rocmwatch.simulate.metrics import gpu_metrics
from rocmwatch.simulate.motion import healthy


@pytest.mark.parametrize("revision", list(LAYOUTS))
def test_every_field_comes_back_as_it_was_written(revision: tuple[int, int]) -> None:
    fields = {
        field.name: number + 1 if field.count == 1 else tuple(range(field.count))
        for number, field in enumerate(LAYOUTS[revision])
    }

    raw = encode(revision, fields)
    read = parse_gpu_metrics(raw)

    assert SIZES[revision] == len(raw)
    assert (*revision, fields) == (read.format_revision, read.content_revision, read.fields)


@pytest.mark.parametrize("revision", list(LAYOUTS))
def test_what_is_not_given_is_not_available(revision: tuple[int, int]) -> None:
    read = parse_gpu_metrics(encode(revision, {}))

    for field in LAYOUTS[revision]:
        assert (None if field.count == 1 else (None,) * field.count) == read.fields[field.name]


def test_attributes_come_back_as_they_were_written() -> None:
    fields = {row.name: 3 if row.count == 1 else tuple(range(row.count)) for row in ATTRIBUTE_TABLE}

    read = parse_gpu_metrics(encode((1, 9), fields))

    assert (1, 9, fields) == (read.format_revision, read.content_revision, read.fields)


def test_a_short_array_is_filled_with_what_is_not_available() -> None:
    read = parse_gpu_metrics(encode((1, 5), {"current_gfxclk": [2100, None]}))

    assert (2100, *(None,) * 7) == read.fields["current_gfxclk"]


def test_a_number_that_is_too_large_wraps() -> None:
    read = parse_gpu_metrics(encode((1, 5), {"gfx_activity_acc": (1 << 32) + 7}))

    assert 7 == read.fields["gfx_activity_acc"]


@pytest.mark.parametrize("revision", [(1, 3), (1, 9)])
def test_a_field_that_the_revision_does_not_have_is_a_mistake(revision: tuple[int, int]) -> None:
    with pytest.raises(KeyError):
        encode(revision, {"temperature_of_the_room": 21})


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["v1_0_mi50_power_zero", "v1_3_mi250x_primary", "v1_4_mi300x", "v1_5_mi300x"])
def test_the_same_fields_give_the_same_bytes_as_elsewhere(recorded: Path, name: str) -> None:
    folder = recorded / "synthetic/gpu_metrics"
    document = json.loads((folder / f"{name}.expected.json").read_text())
    revision = document.pop("format_revision"), document.pop("content_revision")
    document.pop("structure_size")
    known = {field.name for field in LAYOUTS[revision]}

    assert (folder / f"{name}.bin").read_bytes() == encode(
        revision, {key: document[key] for key in document if key in known}
    )


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "write"), [("v1_9_mi300x", encode), ("xcp_metrics_v1_1_mi300x_cpx_partition", encode_partition)]
)
def test_the_same_attributes_give_the_same_bytes_as_elsewhere(
    recorded: Path, name: str, write: Callable[[tuple[int, int], dict[str, Any]], bytes]
) -> None:
    folder = recorded / "synthetic/gpu_metrics"
    document = json.loads((folder / f"{name}.expected.json").read_text())
    revision = document.pop("format_revision"), document.pop("content_revision")
    del document["structure_size"], document["attr_count"]

    assert (folder / f"{name}.bin").read_bytes() == write(revision, document)


@pytest.mark.recorded
def test_an_mi300x_on_the_newest_kernel_has_the_attributes_that_are_known_elsewhere(recorded: Path) -> None:
    theirs = parse_gpu_metrics((recorded / "synthetic/gpu_metrics/v1_9_mi300x.bin").read_bytes()).fields
    card = MODELS["mi300x"].on(KERNELS["7.3"])

    assert set(theirs) == set(parse_gpu_metrics(gpu_metrics(card, healthy(card, 1, 0, 60.0))).fields)


def test_a_partition_s_own_file_comes_back_as_it_was_written() -> None:
    dies = [2100, 2050]

    for revision in (*XCP_LAYOUTS, (1, 1)):
        reading = PartitionDecoder().decode(
            encode_partition(revision, {"current_gfxclk": dies, "gfx_busy_inst": [80, 60]})
        )
        assert [0.7, 2.1e9] == pytest.approx([reading.busy_ratio, reading.sclk_hertz])
