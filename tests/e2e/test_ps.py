"""`rocmwatch ps`: by the daemon and without."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from e2e.running import Service, eventually, run
from household import FLOOR_BYTES, GIB, Household

from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]


@pytest.fixture
def root(node: Node) -> Iterator[str]:
    with closing(Household(node("mi300x", gpus=2))) as household:
        household.units(vllm={"active_state": "active", "sub_state": "running", "main_pid": 150})
        household.engine(200, 150 * GIB, comm="VLLM::EngineCor")
        household.uses(FLOOR_BYTES + 150 * GIB, FLOOR_BYTES)
        yield str(household.root)


def test_it_looks_for_itself_where_there_is_no_daemon(root: str) -> None:
    done = run("ps", "--root", root)

    assert (0, "") == (done.status, done.err)
    assert "vllm.service  unit, 150.0 GiB" in done.out
    assert "200 VLLM::EngineCor  owned  GPU 0 150.0 GiB" in done.out
    assert "\x1b" not in done.out


def test_the_daemon_says_the_same(root: str, tmp_path: Path) -> None:
    own = json.loads(run("ps", "--root", root, "--format", "json").out)
    with Service(tmp_path, root) as service:
        served = eventually(lambda: service.document("holders"), "the holders")
        asked = json.loads(run("ps", "--config", str(service.config), "--format", "json").out)

    for document in (served, asked):
        assert own["attribution"] == document["attribution"]
        assert [{**holder, "age_seconds": None} for holder in own["holders"]] == [
            {**holder, "age_seconds": None} for holder in document["holders"]
        ]


def test_a_machine_without_a_gpu_has_no_holders(tmp_path: Path) -> None:
    for folder in ("sys/class/drm", "proc"):
        (tmp_path / folder).mkdir(parents=True)
    done = run("ps", "--root", str(tmp_path))

    assert (0, True) == (done.status, "No process holds memory of a GPU." in done.out)
