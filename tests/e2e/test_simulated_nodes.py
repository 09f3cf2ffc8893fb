"""Every model on every kernel that drives it: the document of `sample` is what a person reads in the node's files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import by_hand
import pytest
from watching import MINUTE, Watcher

from rocmwatch.model import Snapshot
from rocmwatch.picture import judged
from rocmwatch.serve.documents import sample_document
from rocmwatch.simulate import MODELS, SimulatedNode

Watch = Callable[..., Watcher]
PAIRS = [(model, kernel) for model in MODELS for kernel in MODELS[model].revisions]
HEAD_START_SECONDS = 137.0  # the model is loaded by then, and requests come in


def _gpus(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The GPUs of the document as a script gets them, without when they were read."""
    document = json.loads(json.dumps(sample_document(judged(snapshot))))
    return [{name: value for name, value in gpu.items() if name != "sampled_at"} for gpu in document["gpus"]]


def _compare(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> None:
    assert len(expected) == len(actual)
    for theirs, ours in zip(expected, actual, strict=True):
        assert set(theirs) == set(ours)
        for name, value in theirs.items():
            assert _rounded(value) == _rounded(ours[name]), f"{theirs['pci']} {name}"


def _rounded(value: Any) -> Any:
    """To twelve digits: the same division in another order may differ in the last bit."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.12g}") if isinstance(value, float | int) else value


@pytest.mark.parametrize(("model", "kernel"), PAIRS)
def test_a_sample_is_what_a_person_reads_in_the_files(tmp_path: Path, watch: Watch, model: str, kernel: str) -> None:
    with SimulatedNode(str(tmp_path), model, MODELS[model].dies_per_package, kernel=kernel) as node:
        node.step(HEAD_START_SECONDS)
        watcher = watch(tmp_path)
        first = watcher.tick()
        _compare(by_hand.gpus(tmp_path), _gpus(first))
        before = by_hand.all_metrics(tmp_path)

        node.step(MINUTE)
        second = watcher.tick(MINUTE)

        _compare(by_hand.gpus(tmp_path, before), _gpus(second))
    assert by_hand.text(tmp_path / "sys/module/amdgpu/version") == second.driver_version
    assert {} == second.readers.fault_counts


@pytest.mark.parametrize(("model", "kernel"), [("mi210", "5.15"), ("mi300x-cpx", "dkms"), ("mi300x-cpx", "7.3")])
def test_the_command_says_the_same(tmp_path: Path, model: str, kernel: str) -> None:
    with SimulatedNode(str(tmp_path), model, 2, kernel=kernel) as node:
        node.step(HEAD_START_SECONDS)
    command = [sys.executable, "-m", "rocmwatch", "sample", "--root", str(tmp_path), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    printed = [{k: v for k, v in gpu.items() if k != "sampled_at"} for gpu in json.loads(done.stdout)["gpus"]]
    _compare(by_hand.gpus(tmp_path), printed)
