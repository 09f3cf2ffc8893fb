"""GPUs with errors, bad links and clocks held down: each number another, so that none is taken for its neighbour."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import by_hand
import pytest
from watching import MINUTE, Watcher

from rocmwatch.picture import judged
from rocmwatch.serve.documents import sample_document
from rocmwatch.simulate import MODELS, SCENARIOS, SimulatedNode, State, motion
from rocmwatch.simulate.scenarios.scene import Cast, Scenario, Scene, engines_of

Watch = Callable[..., Watcher]
PAIRS = [(model, kernel) for model in MODELS for kernel in MODELS[model].revisions]
SECONDS = 137.0
RATES = {"prochot": 0.01, "power": 0.25, "socket_thermal": 0.5, "vr_thermal": 0.125, "hbm_thermal": 0.75}
WHYS = (frozenset({"current", "prochot"}), frozenset({"power", "thermal"}))
SEVERITIES = ("correctable", "uncorrectable", "deferred")
LINK = {"current_link_speed": "8.0 GT/s PCIe", "current_link_width": "4", "pcie_replay_count": "90210"}


def _live(cast: Cast, index: int, seconds: float) -> State:
    state = motion.healthy(cast.model, cast.seed, index, seconds)
    places = [(block, severity) for block in cast.model.ras_blocks for severity in SEVERITIES]
    return replace(
        state,
        throttle={reason: rate * (motion.UPTIME_SECONDS + seconds) for reason, rate in RATES.items()},
        throttled=WHYS[index % len(WHYS)],
        ras={place: 1000 * index + number for number, place in enumerate(places, 1)},
    )


def _scene(cast: Cast, seconds: float) -> Scene:
    files = {(0, name): lambda _old, text=text: f"{text}\n".encode() for name, text in LINK.items()}
    return Scene(engines=engines_of(cast, seconds), files=files)


@pytest.fixture
def worn(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a scenario."""
    monkeypatch.setitem(SCENARIOS, "worn", Scenario(name="worn", summary="worn", live=_live, scene=_scene))
    return "worn"


def _gpus(watcher: Watcher, seconds: float) -> list[dict[str, Any]]:
    return list(json.loads(json.dumps(sample_document(judged(watcher.tick(seconds)))))["gpus"])


@pytest.mark.parametrize(("model", "kernel"), PAIRS)
def test_what_is_wrong_is_sampled_as_it_is_in_the_files(
    tmp_path: Path, watch: Watch, worn: str, model: str, kernel: str
) -> None:
    with SimulatedNode(str(tmp_path), model, MODELS[model].dies_per_package, worn, kernel=kernel) as node:
        node.step(SECONDS)
        watcher = watch(tmp_path)
        watcher.tick()
        before = by_hand.all_metrics(tmp_path)
        node.step(MINUTE)
        gpus = _gpus(watcher, MINUTE)
        expected = by_hand.gpus(tmp_path, before)

    for theirs, ours, state in zip(expected, gpus, node.states, strict=True):
        for name in ("throttle_ratio", "throttled", "pcie", "ras_errors", "xgmi"):
            assert _flat(theirs[name]) == pytest.approx(_flat(ours[name])), name
        assert [] == ours["faults"]
        _agrees(node, state, ours)
    assert [4, 8e9] == [gpus[0]["pcie"][name] for name in ("width", "transfers_per_second")]


def _flat(value: Any, name: str = "") -> Any:
    if not isinstance(value, Mapping):
        return {name: value}
    return {key: number for inner, item in value.items() for key, number in _flat(item, f"{name}/{inner}").items()}


def _agrees(node: SimulatedNode, state: State, gpu: dict[str, Any]) -> None:
    """What the files say is what was to be simulated, wherever this kernel says it at all."""
    errors = gpu["ras_errors"] or {}
    assert sorted(node.model.ras_blocks) == sorted(errors)
    for block, counts in errors.items():
        for severity, count in counts.items():
            assert count in (state.ras[block, severity], None if severity == "deferred" else -1)
    for reason, held in gpu["throttled"].items():
        assert held in (None, int(reason in state.throttled))
    for reason, share in gpu["throttle_ratio"].items():
        assert share is None or share == pytest.approx(RATES[reason], abs=1e-3)


@pytest.mark.parametrize(
    ("model", "kernel", "says_shares", "says_now"),
    [
        ("mi210", "5.15", False, True),
        ("rx7900xtx", "7.3", False, True),
        ("mi300x", "6.5", False, True),
        ("mi300x", "6.12", False, False),
        ("mi300x", "7.3", True, False),
        ("mi325x", "dkms-6.4", True, False),
        ("mi355x", "dkms", True, False),
    ],
)
def test_throttling_is_told_in_the_way_of_the_card_and_its_driver(
    tmp_path: Path, watch: Watch, worn: str, model: str, kernel: str, says_shares: bool, says_now: bool
) -> None:
    with SimulatedNode(str(tmp_path), model, 1, worn, kernel=kernel) as node:
        node.step(SECONDS)
        watcher = watch(tmp_path)
        watcher.tick()
        node.step(MINUTE)
        (gpu,) = _gpus(watcher, MINUTE)

    assert [says_shares] * len(RATES) == [share is not None for share in gpu["throttle_ratio"].values()]
    now = {"power": 0, "current": 1, "thermal": 0, "prochot": 1} if says_now else dict.fromkeys(gpu["throttled"])
    assert now == gpu["throttled"]
