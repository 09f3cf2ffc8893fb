"""The whole exposition of a simulated node of each model, at a fixed moment: `make golden` accepts a change.

For each other kernel that drives the model there are the lines by which its text differs: those that go, and those that
come. Families that tell of time or of this build are left out, as they never say the same twice.
"""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import MINUTE, Watcher

from rocmwatch.model import View
from rocmwatch.picture import judged
from rocmwatch.serve.exposition import Exposition, Format
from rocmwatch.simulate import MODELS, SimulatedNode

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
SIMULATED_SECONDS = 137.0
OTHERS = [
    (model.name, kernel) for model in MODELS.values() for kernel in model.revisions if kernel != model.kernel.name
]
VOLATILE = (
    "sample_age_seconds",
    "sample_duration_seconds",
    "build_info",
    "config_last_reload_success_timestamp_seconds",
)


def exposition(watcher: Watcher, seconds: float = 5.0) -> str:
    """What a scrape of the picture after one more tick would get."""
    view = View(
        snapshot=judged(watcher.tick(seconds)),
        version="0",
        started_at=watcher.clock.unix(),
        hostname="node",
        root="",
        config_loaded_at=watcher.clock.unix(),
    )
    return b"".join(Exposition().scrape(view, watcher.clock.unix(), Format.TEXT, gzip=False)).decode()


def lasting(text: str) -> str:
    """Without the volatile families."""
    pattern = re.compile(rf"(# (HELP|TYPE|UNIT) )?rocmwatch_({'|'.join(VOLATILE)})\b")
    return "".join(line for line in text.splitlines(keepends=True) if not pattern.match(line))


def text_of(root: Path, watch: Watch, model: str, kernel: str) -> str:
    """Of a node with one GPU, or with one package of several dies, after two looks: shares of time need both."""
    with SimulatedNode(str(root), model, MODELS[model].dies_per_package, kernel=kernel) as made:
        made.step(SIMULATED_SECONDS)
        watcher = watch(made.root)
        watcher.tick()
        made.step(MINUTE)
        return lasting(exposition(watcher, MINUTE))


def differences(one: str, other: str) -> str:
    """The lines that are only in one of them."""
    lines = difflib.ndiff(one.splitlines(keepends=True), other.splitlines(keepends=True))
    return "".join(line for line in lines if line[0] in "+-")


@pytest.mark.parametrize("model", MODELS)
def test_a_node_is_exposed_as_it_was(
    tmp_path: Path, watch: Watch, golden: Callable[[str, str], None], model: str
) -> None:
    golden(f"nodes/{model}.prom", text_of(tmp_path, watch, model, MODELS[model].kernel.name))


@pytest.mark.parametrize(("model", "kernel"), OTHERS)
def test_another_kernel_differs_as_it_did(
    tmp_path: Path, watch: Watch, golden: Callable[[str, str], None], model: str, kernel: str
) -> None:
    usual = text_of(tmp_path / "usual", watch, model, MODELS[model].kernel.name)
    other = text_of(tmp_path / "other", watch, model, kernel)

    golden(f"nodes/{model}-on-{kernel}.diff", differences(usual, other))


@pytest.mark.promtool
@pytest.mark.parametrize("model", MODELS)
def test_promtool_has_nothing_to_say(tmp_path: Path, watch: Watch, model: str) -> None:
    text = text_of(tmp_path, watch, model, [*MODELS[model].revisions][-1])
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)


def test_what_is_left_out_is_there(node: Node, watch: Watch) -> None:
    """The filter names families that exist: one that was renamed would slip through it."""
    text = exposition(watch(node("apu").root))

    assert [] == [name for name in VOLATILE if f"# TYPE rocmwatch_{name} " not in text]


def test_a_golden_text_is_of_a_model_and_a_kernel() -> None:
    """A model that goes takes its texts along."""
    folder = Path(__file__).parent.parent / "golden/nodes"

    expected = {f"{model}.prom" for model in MODELS} | {f"{model}-on-{kernel}.diff" for model, kernel in OTHERS}
    assert expected == {path.name for path in folder.iterdir()}
