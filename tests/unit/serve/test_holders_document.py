"""Who holds the memory, as a document, as series and as lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from prometheus_client.utils import floatToGoString
from unit.serve import views

from rocmwatch.model import (
    Action,
    Attribution,
    Balance,
    GpuProcess,
    Held,
    Holder,
    HolderClass,
    Holdings,
    Owner,
    OwnerKind,
    Use,
    View,
)
from rocmwatch.serve.exposition import Exposition, Format
from rocmwatch.serve.holder_lines import holder_lines
from rocmwatch.serve.holder_series import MOST_OWNERS
from rocmwatch.serve.holders_document import holders_document

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schemas" / "holders-1.json"
GIB = views.GIB
PCI = views.gpu(0).pci
HOSTILE = "<script>\x1b[2J\n\udcff"


def holder(pid: int, holder_class: str, action: str, owner: Owner, size: int = GIB, **changes: object) -> Holder:
    held = (Held(pci=PCI, partition=None, bytes=size),) if size else ()
    process = GpuProcess(pid=pid, start_time=7, comm="python3", state="S", parent=1, uid=0, uses=(Use(pci=PCI),))
    return Holder(
        process=replace(process, **changes),  # type: ignore[arg-type]
        holder_class=HolderClass(holder_class),
        owner=owner,
        held=held,
        reason=f"why it is {holder_class}",
        action=Action(action),
        age_seconds=4000.0,
    )


UNIT = Owner(kind=OwnerKind.UNIT, name="vllm@0.service")
HOLDERS = (
    holder(200, "owned", "none", UNIT, 40 * GIB),
    holder(201, "owned", "none", UNIT, parent=200),
    holder(300, "orphan", "terminate", Owner(kind=OwnerKind.SESSION, name="session-3.scope")),
    holder(400, "ghost", "alert", Owner(), start_time=None, comm=None, state=None, parent=None, uid=None),
    holder(500, "contained", "alert", Owner(kind=OwnerKind.CONTAINER, name=HOSTILE), comm=HOSTILE),
    holder(9, "monitor", "none", Owner(), 0),
)


def view(attribution: str = "complete", **changes: object) -> View:
    made = views.view(views.reading(0), views.reading(1))
    balances = (
        Balance(
            pci=PCI,
            attribution=Attribution(attribution),
            held_bytes=44 * GIB,
            idle_floor_bytes=GIB,
            unowned_bytes=3 * GIB,
        ),
        Balance(pci=views.gpu(1).pci, attribution=Attribution(attribution), idle_seconds=12.5),
    )
    holdings = Holdings(attribution=Attribution(attribution), holders=HOLDERS, balances=balances, notes=("a note",))
    return replace(made, holdings=replace(holdings, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [view(), views.view(), views.every_state(), views.hostile()])
def test_it_keeps_to_its_schema(made: View) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(json.dumps(holders_document(made), allow_nan=False))

    jsonschema.Draft202012Validator(schema).validate(document)


def test_it_says_who_holds_what() -> None:
    document = holders_document(view())

    assert ("complete", [{"pci": PCI, "bytes": 3 * GIB}], ["a note"]) == (
        document["attribution"],
        document["unowned"],
        document["notes"],
    )
    first = document["holders"][0]  # type: ignore[index]
    assert (200, "owned", {"kind": "unit", "name": "vllm@0.service"}) == (first["pid"], first["class"], first["owner"])


def test_before_anybody_looked_it_is_unknown() -> None:
    document = holders_document(views.view(views.reading(0)))

    assert ("unknown", [], None) == (document["attribution"], document["holders"], document["gpus"][0]["held_bytes"])  # type: ignore[index]


def exposed(made: View) -> list[str]:
    text = b"".join(Exposition().scrape(made, views.NOW, Format.TEXT, gzip=False)).decode()
    return [line.removeprefix("rocmwatch_") for line in text.splitlines() if not line.startswith("#")]


def test_the_series_are_of_gpus_and_owners_and_never_of_pids() -> None:
    lines = exposed(view())
    place = f'gpu="0",pci="{PCI}"'

    for line in (
        f'gpu_holders{{class="owned",{place}}} 2.0',
        f'gpu_holders{{class="stuck",{place}}} 0.0',
        f"gpu_vram_unowned_bytes{{{place}}} {floatToGoString(3 * GIB)}",
        f"gpu_vram_idle_floor_bytes{{{place}}} {floatToGoString(GIB)}",
        f'owner_vram_bytes{{gpu="0",kind="unit",owner="vllm@0.service",pci="{PCI}"}} {floatToGoString(41 * GIB)}',
        'attribution{state="complete"} 1.0',
        'attribution{state="partial"} 0.0',
    ):
        assert line in lines
    assert not [line for line in lines if '"200"' in line or "pid=" in line]


def test_there_is_no_series_of_what_nobody_looked_at() -> None:
    lines = exposed(views.view(views.reading(0)))

    assert not [line for line in lines if line.startswith(("gpu_holders", "owner_", "attribution", "gpu_vram_unowned"))]


def test_owners_are_bounded() -> None:
    many = tuple(
        holder(number, "owned", "none", Owner(kind=OwnerKind.UNIT, name=f"u{number}.service"))
        for number in range(1, 200)
    )

    assert MOST_OWNERS == len([line for line in exposed(view(holders=many)) if line.startswith("owner_vram_bytes")])


def lines_of(made: View) -> list[str]:
    return [line.plain for line in holder_lines(holders_document(made))]


def test_the_lines_put_holders_below_their_owners_and_workers_below_their_parents() -> None:
    lines = lines_of(view())

    assert (
        f"GPU 0  {PCI}  ███████████████░░░░░  48.0 GiB of 64.0 GiB  held 44.0 GiB  driver 1.0 GiB  unowned 3.0 GiB"
        == lines[0]
    )
    at = lines.index("vllm@0.service  unit, 41.0 GiB")
    assert [
        "  200 python3  owned  GPU 0 40.0 GiB  1 h 6 min old",
        "    why it is owned",
        "    201 python3  owned  GPU 0 1.0 GiB  1 h 6 min old",
        "      why it is owned",
    ] == lines[at + 1 : at + 5]
    assert "  300 python3  orphan  GPU 0 1.0 GiB  1 h 6 min old  -> terminate" in lines
    assert "  400 ?  ghost  GPU 0 1.0 GiB  1 h 6 min old" in lines
    assert "Nobody owns GPU 0 3.0 GiB: the driver has not given it back. A reboot does." in lines


def test_a_leak_of_the_driver_is_called_one() -> None:
    assert [line for line in lines_of(view(driver_leak=True)) if "the driver has lost it (driver 6.12.12)" in line]


def test_names_are_shown_and_not_obeyed() -> None:
    for line in lines_of(view()):
        assert line.isprintable()
        line.encode()


def test_a_terminal_of_plain_letters_gets_plain_letters() -> None:
    for line in holder_lines(holders_document(view(holders=())), ascii_only=True):
        assert line.plain.isascii()
