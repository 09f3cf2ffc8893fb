"""The last hour as JSON: against its schema, and as it was asked for."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from unit.serve import views

from rocmwatch.judge.trends import Trends
from rocmwatch.model import View
from rocmwatch.serve.http import Request, Response
from rocmwatch.serve.routes import Application
from rocmwatch.serve.trends_document import Wish, parse_wish, trends_document

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schemas" / "trends-1.json"
STEPS = 40


def lived() -> View:
    """A view of GPUs in every state, a while after the start."""
    view = views.every_state()
    trends = Trends()
    for step in range(STEPS):
        last = trends.take(view.snapshot, 5.0 * step, views.NOW + 5.0 * step, 5.0)
    return replace(view, trends=last)


@pytest.fixture(scope="module")
def view() -> View:
    return lived()


def asked(view: View | None, query: str = "", **headers: str) -> Response:
    application = Application(lambda: view, lambda: views.NOW)
    return application(
        Request("GET", "/api/v1/trends", {key.replace("_", "-"): text for key, text in headers.items()}, query)
    )


@pytest.mark.parametrize("made", [lived(), views.hostile(), views.view()])
def test_it_keeps_to_its_schema(made: View) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(json.dumps(trends_document(made), allow_nan=False))

    jsonschema.Draft202012Validator(schema).validate(document)
    assert [reading.gpu.pci for reading in made.snapshot.gpus] == [gpu["pci"] for gpu in document["gpus"]]


def test_only_what_is_wanted_is_told(view: View) -> None:
    document = trends_document(view, parse_wish("gpu=0&name=vram_used_bytes&name=nothing&points=3"))

    ((gpu),) = document["gpus"]  # type: ignore[misc]
    assert ("0", ["vram_used_bytes"]) == (gpu["gpu"], list(gpu["trends"]))
    assert 3 == len(gpu["trends"]["vram_used_bytes"]["points"])


def test_a_gpu_is_asked_for_by_its_address_as_well(view: View) -> None:
    pci = view.snapshot.gpus[0].gpu.pci

    assert [pci] == [gpu["pci"] for gpu in trends_document(view, Wish(gpus=frozenset({pci})))["gpus"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=red", "unknown in the query: colour; known are gpu, name, points"),
        ("%0a=1", r"unknown in the query: \n; known are gpu, name, points"),
        ("points=0", "points is a number from 1 to 720"),
        ("points=721", "points is a number from 1 to 720"),
        ("points=", "points is a number from 1 to 720"),
        ("&".join(["gpu=1"] * 101), "Max number of fields exceeded"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_in_one_line(view: View, query: str, said: str) -> None:
    answer = asked(view, query)

    assert ("400 Bad Request", f"{said}\n".encode()) == (answer.status, b"".join(answer.body))


def test_it_is_compressed_for_whoever_takes_that(view: View) -> None:
    plain, small = asked(view), asked(view, accept_encoding="gzip")

    assert b"".join(plain.body) == gzip.decompress(b"".join(small.body))
    assert dict(small.headers)["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in dict(plain.headers)


def test_before_the_first_reading_there_is_none() -> None:
    assert asked(None).status.startswith("503")
