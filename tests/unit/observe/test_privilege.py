"""Main gives every capability away; launcher and readers keep exactly the two that reading needs.

Each test acts in a process of its own: what is given away does not come back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rocmwatch.simulate import SimulatedNode

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
NONE = 0
BOTH = 1 << 2 | 1 << 19  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE
SHOWN = f"""
def shown(pid):
    lines = dict(line.split(":", 1) for line in open(f"/proc/{{pid}}/status") if ":" in line)
    return {{name: int(lines[name], 16) for name in {SETS}}}
"""
STUDIO = f"""
import json, sys
from rocmwatch.observe.sampler import Pace
from rocmwatch.picture import Studio
{SHOWN}
studio = Studio(sys.argv[1])
view = studio.take(config_loaded_at=0)
launcher = studio.launcher.pid
reader = int(open(f"/proc/{{launcher}}/task/{{launcher}}/children").read())
print(json.dumps({{
    "main": shown("self"), "launcher": shown(launcher), "reader": shown(reader),
    "states": [reading.state.value for reading in view.snapshot.gpus], "notes": view.snapshot.notes,
    "tables": sum(reading.free_blocks is not None for reading in view.snapshot.gpus),
}}))
studio.close()
"""
EXEC = f"""
import json, subprocess, sys
from rocmwatch.observe.privilege import drop_all
{SHOWN}
drop_all()
code = {SHOWN!r} + "import json; print(json.dumps(shown('self')))"
print(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode())
"""


def ran(code: str, *arguments: str, before: tuple[str, ...] = ()) -> Any:
    """What a program prints, as JSON."""
    command = [*before, sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "" == done.stderr
    return json.loads(done.stdout)


# Both keep the user of the tests, whose Python another user may not be able to read; the tree's debugfs is another
# user's.
WITH_TWO = (
    "setpriv",
    "--bounding-set=-all,+dac_read_search,+sys_ptrace",
    "--inh-caps=-all,+dac_read_search,+sys_ptrace",
)
WITH_NONE = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.fixture
def root(node: Callable[..., SimulatedNode], require: Callable[[str], None]) -> str:
    """A node whose debugfs only another user may list, or who has the capability for it."""
    require("root")
    made = node("mi300x", gpus=2)
    os.chown(f"{made.root}/sys/kernel/debug", 65534, 65534)
    return made.root


def test_root_gives_everything_away_and_its_readers_keep_two(root: str) -> None:
    seen = ran(STUDIO, root)

    nothing = dict.fromkeys(SETS, NONE) | {"NoNewPrivs": 1}
    two = nothing | dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), BOTH)
    assert {"main": nothing, "launcher": two, "reader": two} == {
        name: seen[name] for name in ("main", "launcher", "reader")
    }
    assert (["active", "active"], 2, []) == (seen["states"], seen["tables"], seen["notes"])


def test_one_with_the_two_only_keeps_none_in_main(root: str, require: Callable[[str], None]) -> None:
    """As under the unit, where systemd leaves two in every set; the bounding set cannot be cut any more."""
    require("setpriv")
    seen = ran(STUDIO, root, before=WITH_TWO)

    assert (NONE, NONE, NONE, NONE, 1) == held(seen["main"])
    assert BOTH == seen["main"]["CapBnd"]
    for process in ("launcher", "reader"):
        assert (BOTH, BOTH) == (seen[process]["CapPrm"], seen[process]["CapEff"])
    assert (["active", "active"], 2, []) == (seen["states"], seen["tables"], seen["notes"])


def test_one_without_any_capability_sees_all_but_debugfs(root: str, require: Callable[[str], None]) -> None:
    require("setpriv")
    seen = ran(STUDIO, root, before=WITH_NONE)

    for process in ("main", "launcher", "reader"):
        assert (NONE, NONE, NONE, NONE, 1) == held(seen[process])
    assert (["active", "active"], 0) == (seen["states"], seen["tables"])
    (note,) = seen["notes"]
    assert note.startswith("/sys/kernel/debug/dri: no permission (needs CAP_DAC_READ_SEARCH)")


def held(process: dict[str, int]) -> tuple[int, ...]:
    return tuple(process[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs"))


def test_what_was_given_away_does_not_come_back_with_another_program(require: Callable[[str], None]) -> None:
    require("root")
    seen = ran(EXEC)

    assert dict.fromkeys(SETS, NONE) | {"NoNewPrivs": 1} == seen
