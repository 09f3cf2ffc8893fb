"""The whole exposition of a simulated node of each model, at a fixed moment: `make golden` accepts a change.

Families that tell of time or of this build are left out, as they never say the same twice.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import Watcher

from rocmwatch.model import View
from rocmwatch.picture import judged
from rocmwatch.serve.exposition import Exposition, Format
from rocmwatch.simulate import MODELS, SimulatedNode

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
SIMULATED_SECONDS = 137.0
VOLATILE = (
    "sample_age_seconds",
    "sample_duration_seconds",
    "build_info",
    "config_last_reload_success_timestamp_seconds",
)


def exposition(watcher: Watcher) -> str:
    """What a scrape of the picture after one tick would get."""
    view = View(
        snapshot=judged(watcher.tick()),
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


@pytest.mark.parametrize("model", MODELS)
def test_a_node_is_exposed_as_it_was(node: Node, watch: Watch, golden: Callable[[str, str], None], model: str) -> None:
    made = node(model, gpus=1 if model == "apu" else 2)
    made.step(SIMULATED_SECONDS)

    golden(f"nodes/{model}.prom", lasting(exposition(watch(made.root))))


@pytest.mark.promtool
@pytest.mark.parametrize("model", MODELS)
def test_promtool_has_nothing_to_say(node: Node, watch: Watch, model: str) -> None:
    made = node(model, gpus=1 if model == "apu" else 2)
    made.step(SIMULATED_SECONDS)
    text = exposition(watch(made.root))
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "", "") == (checked.returncode, checked.stdout, checked.stderr)


def test_what_is_left_out_is_there(node: Node, watch: Watch) -> None:
    """The filter names families that exist: one that was renamed would slip through it."""
    text = exposition(watch(node("apu").root))

    assert [] == [name for name in VOLATILE if f"# TYPE rocmwatch_{name} " not in text]


def test_a_golden_text_is_of_a_model() -> None:
    """A model that goes takes its text along."""
    folder = Path(__file__).parent.parent / "golden/nodes"

    assert set(MODELS) == {path.stem for path in folder.iterdir()}
