"""What systemd says of units: asked as seldom as can be, and never guessed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from rocmwatch.model import UnitState
from rocmwatch.observe import units as units_module
from rocmwatch.observe.units import AGAIN_SECONDS, Units, is_unit, parse_show

SHOWN = """\
ActiveState=active
SubState=running
Id=vllm@0.service
InvocationID=aaaa
MainPID=4242
NRestarts=2
LoadState=loaded
ExecMainExitTimestampMonotonic=1500000000

Id=gone.service
LoadState=not-found
ActiveState=inactive
SubState=dead
MainPID=0
ExecMainExitTimestampMonotonic=0
"""
RUNNING = UnitState(
    name="vllm@0.service",
    active_state="active",
    sub_state="running",
    invocation="aaaa",
    main_pid=4242,
    main_exited_at=1500.0,
    restarts=2,
)
GONE = UnitState(name="gone.service", load_state="not-found", sub_state="dead")


class Systemd:
    """A systemctl that says what it is told to, and counts how often it is asked; and the folder of links."""

    def __init__(self, folder: Path) -> None:
        self.program = str(folder / "systemctl")
        self.links = folder / "units"
        self.links.mkdir()
        self._calls = folder / "calls"
        self._calls.touch()
        self.says(SHOWN)

    def says(self, text: str, status: int = 0, error: str = "") -> None:
        script = (
            f"#!/bin/sh\necho \"$*\" >>'{self._calls}'\ncat <<'END'\n{text}\nEND\necho '{error}' >&2\nexit {status}\n"
        )
        Path(self.program).write_text(script)
        os.chmod(self.program, stat.S_IRWXU)

    def starts(self, name: str, invocation: str) -> None:
        link = self.links / f"invocation:{name}"
        link.unlink(missing_ok=True)
        os.symlink(invocation, link)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    made = Systemd(tmp_path)
    monkeypatch.setattr(units_module, "LINKS", str(made.links))
    return made


def test_what_is_shown_is_understood() -> None:
    assert {"vllm@0.service": RUNNING, "gone.service": GONE} == parse_show(SHOWN)


@pytest.mark.parametrize("text", ["", "\n\n\n", "nonsense", "ActiveState=active\n"])
def test_what_names_no_unit_is_none(text: str) -> None:
    assert {} == parse_show(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm@0.service", True),
        (r"vllm@a\x2db.service", True),
        ("session-3.scope", True),
        ("--all.service", False),
        ("-x.service", False),
        ("a b.service", False),
        ("a.socket", False),
        ("*.service", False),
        ("", False),
        ("a/b.service", False),
        ("a\n.service", False),
    ],
)
def test_only_the_name_of_a_unit_reaches_systemctl(name: str, expected: bool) -> None:
    assert expected is is_unit(name)


def test_systemctl_is_asked_once_as_long_as_nothing_changes(systemd: Systemd) -> None:
    units = Units(systemctl=systemd.program)
    systemd.starts("vllm@0.service", "aaaa")
    names = ["vllm@0.service", "gone.service", "--help.service"]

    assert {"vllm@0.service": RUNNING, "gone.service": GONE} == units.look(names, 0.0)
    assert {"vllm@0.service": RUNNING, "gone.service": GONE} == units.look(names, 10.0)
    (call,) = systemd.calls
    assert call.endswith("-- gone.service vllm@0.service")


def test_a_new_start_is_seen_by_its_link(systemd: Systemd) -> None:
    units = Units(systemctl=systemd.program)
    systemd.starts("vllm@0.service", "aaaa")
    units.look(["vllm@0.service"], 0.0)
    systemd.starts("vllm@0.service", "bbbb")
    systemd.says(SHOWN.replace("aaaa", "bbbb"))

    found = units.look(["vllm@0.service"], 5.0)

    assert found is not None
    assert ("bbbb", 2) == (found["vllm@0.service"].invocation, len(systemd.calls))


def test_what_no_link_tells_is_asked_again_after_a_minute_and_a_state_in_between_at_once(systemd: Systemd) -> None:
    units = Units(systemctl=systemd.program)
    units.look(["vllm@0.service"], 0.0)
    units.look(["vllm@0.service"], AGAIN_SECONDS)
    assert 2 == len(systemd.calls)
    systemd.says(SHOWN.replace("ActiveState=active", "ActiveState=activating"))
    units.look(["vllm@0.service"], 2 * AGAIN_SECONDS)
    units.look(["vllm@0.service"], 2 * AGAIN_SECONDS + 1)

    assert 4 == len(systemd.calls)


def test_a_systemd_that_does_not_answer_leaves_nothing_known(systemd: Systemd) -> None:
    units = Units(systemctl=systemd.program)
    units.look(["vllm@0.service"], 0.0)
    systemd.says("", 1, "Failed to connect to bus: No such file or directory")

    assert units.look(["vllm@0.service"], AGAIN_SECONDS) is None
    assert "systemctl show: Failed to connect to bus: No such file or directory" == units.trouble
    assert units.look(["vllm@0.service"], AGAIN_SECONDS + 1) is None
    assert 2 == len(systemd.calls)
    systemd.says(SHOWN)
    assert {"vllm@0.service": RUNNING, "gone.service": GONE} == units.look(
        ["vllm@0.service", "gone.service"], 2 * AGAIN_SECONDS
    )


def test_a_systemctl_that_hangs_is_given_up(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units_module, "SHOW_SECONDS", 0.1)
    Path(systemd.program).write_text("#!/bin/sh\nexec sleep 60\n")
    units = Units(systemctl=systemd.program)

    assert units.look(["vllm@0.service"], 0.0) is None
    assert "timed out" in units.trouble


def test_a_machine_without_systemd_is_none(tmp_path: Path) -> None:
    units = Units(systemctl=str(tmp_path / "nothing"))

    assert units.look(["vllm@0.service"], 0.0) is None
    assert units.look([], 0.0) is None


class TestOfAnotherRoot:
    def test_its_file_tells(self, tmp_path: Path) -> None:
        listed = {"vllm@0.service": {"active_state": "failed", "main_exited_at": 7.0}}
        (tmp_path / "units.json").write_text(json.dumps(listed))

        expected = UnitState(name="vllm@0.service", active_state="failed", main_exited_at=7.0)
        assert {"vllm@0.service": expected} == Units(str(tmp_path)).look(["vllm@0.service", "other.service"], 0.0)

    def test_without_a_file_nothing_is_known(self, tmp_path: Path) -> None:
        units = Units(str(tmp_path))

        assert (None, "") == (units.look(["vllm@0.service"], 0.0), units.trouble)

    @pytest.mark.parametrize("text", ["{", "[]", '{"vllm@0.service": 7}', '{"vllm@0.service": {"colour": "red"}}'])
    def test_one_that_makes_no_sense_is_said(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "units.json").write_text(text)
        units = Units(str(tmp_path))

        assert units.look(["vllm@0.service"], 0.0) in (None, {})
        assert units.trouble or text == "[]"
