"""The JSON documents against their schemas and against what was agreed."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from unit.serve import views

from rocmwatch.serve.documents import sample_document, status_document

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"
VIEWS = {
    "every_state": views.every_state(),
    "hostile": views.hostile(),
    "no_gpu": views.view(),
}


def check(document: object, name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator
    validator.check_schema(schema)
    validator(schema).validate(json.loads(json.dumps(document, allow_nan=False)))


@pytest.mark.parametrize("name", list(VIEWS))
def test_the_sample_document_keeps_to_its_schema(name):
    check(sample_document(VIEWS[name].snapshot), "sample-1")


@pytest.mark.parametrize("name", list(VIEWS))
def test_the_status_document_keeps_to_its_schema(name):
    check(status_document(VIEWS[name], views.NOW), "status-1")


@pytest.mark.parametrize(("name", "field"), [("sample-1", "power_watts"), ("status-1", "faults")])
def test_the_schemas_refuse_a_field_that_is_left_out(name, field):
    document = sample_document(VIEWS["every_state"].snapshot)
    if name == "status-1":
        document = status_document(VIEWS["every_state"], views.NOW)
    del document["gpus"][0][field]
    with pytest.raises(jsonschema.ValidationError):
        check(document, name)


def test_a_sample_says_what_was_agreed():
    document = sample_document(views.view(views.mi300x_cpx(0)).snapshot)
    assert (document["schema"], document["taken_at"]) == ("rocmwatch/sample/1", "2025-12-31T23:59:58.000Z")
    [gpu] = document["gpus"]
    assert gpu["temperatures_celsius"] == {"edge": None, "junction": 71.0, "memory": 62.0}
    assert gpu["clocks_hertz"] == {"sclk": 1.7e9, "mclk": 1.6e9}
    assert gpu["fragmentation"] == {
        "ratio": 0.0625,
        "allocatable_bytes": 15 * views.GIB,
        "largest_free_block_bytes": 8 * views.GIB,
    }
    assert gpu["partitions"][7] == {
        "partition": "7",
        "vram_total_bytes": 24 * views.GIB,
        "vram_used_bytes": 7 * views.GIB,
        "busy_ratio": 0.875,
        "sclk_hertz": 2.093e9,
    }
    assert (gpu["pool"], gpu["pool_used_bytes"], gpu["state"]) == ("vram", 28 * views.GIB, "active")


def test_a_sample_says_what_the_hardware_says_of_itself():
    [gpu] = sample_document(views.view(views.mi300x_cpx(0)).snapshot)["gpus"]
    assert gpu["throttle_ratio"] == {
        "prochot": 0.0,
        "power": 0.25,
        "socket_thermal": 0.0,
        "vr_thermal": None,
        "hbm_thermal": 0.01,
    }
    assert gpu["throttled"] == dict.fromkeys(("power", "current", "thermal", "prochot"))
    assert gpu["pcie"] == {
        "width": 16,
        "max_width": 16,
        "transfers_per_second": 32e9,
        "max_transfers_per_second": 32e9,
        "replays": 3,
    }
    assert gpu["xgmi"]["read_bytes"] == {"0": 0, "1": 93_424_196_608}
    assert gpu["ras_errors"] == {
        "umc": {"uncorrectable": 0, "correctable": 12, "deferred": 2},
        "gfx": {"uncorrectable": 1, "correctable": None, "deferred": None},
    }
    assert gpu["limits"]["temperatures_celsius"]["junction"] == {"critical": 100.0, "emergency": 105.0}
    assert gpu["limits"]["power_cap_watts"] == 750.0
    assert (gpu["energy_joules"], gpu["xcc_clocks_hertz"]["7"]) == (123_456.789, 2.093e9)
    assert gpu["sampled_at"]["ras"] == "2025-12-31T23:56:40.000Z"


def test_a_card_that_counts_nothing_has_no_errors_and_no_links():
    bare = sample_document(views.every_state().snapshot)["gpus"][6]
    assert (None, None, {}) == (bare["ras_errors"], bare["xgmi"], bare["xcc_clocks_hertz"])
    assert set(bare["pcie"].values()) == {None}
    assert set(bare["sampled_at"].values()) == {None}


@pytest.mark.parametrize("number", [2, 4])
def test_of_a_gpu_that_cannot_be_read_every_value_is_null(number):
    gpu = sample_document(views.every_state().snapshot)["gpus"][number]
    assert gpu["state"] in {"stalled", "lost"}
    values = {key: value for key, value in gpu.items() if key.endswith(("_bytes", "_watts")) or key == "fragmentation"}
    assert set(values.values()) == {None}
    assert set(gpu["temperatures_celsius"].values()) == {None}
    assert {None} == set(gpu["pcie"].values()) | {gpu["ras_errors"], gpu["limits"]["power_cap_watts"]}


def test_a_gpu_is_given_with_its_faults():
    gpu = sample_document(views.every_state().snapshot)["gpus"][3]
    assert gpu["faults"] == [
        {"source": "temperature_junction", "errno": "EBUSY", "path": "/sys/class/hwmon/hwmon3/temp2_input"}
    ]


def test_status_counts_ages_from_the_moment_it_is_asked():
    document = status_document(views.every_state(), views.NOW + 10)
    assert document["taken_at"] == "2026-01-01T00:00:10.000Z"
    assert document["uptime_seconds"] == 3710
    assert document["snapshot"] == {"sequence": 7, "taken_at": "2025-12-31T23:59:58.000Z", "age_seconds": 12}
    assert document["sources"]["memory"]["age_seconds"] == 12
    assert document["sources"]["topology"] == {"last_success_at": None, "age_seconds": None, "duration_seconds": None}
    assert document["readers"]["faults"] == [{"source": "vram_used_bytes", "errno": "EIO", "count": 3}]
    assert [(gpu["state"], gpu["age_seconds"]) for gpu in document["gpus"]][4:] == [
        ("lost", 12),
        ("active", 12),
        ("active", None),
    ]
