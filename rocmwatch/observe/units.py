"""What systemd says of the units that hold a GPU, as cheaply as can be.

    /run/systemd/units/invocation:vllm@0.service -> 4f1c...     a link that is there while the unit is; each start has
                                                                another value
    systemctl show U... -p Id,ActiveState,...                   a process of its own: only when a link changed

Nothing is changed here. Below a root of another node nobody asks this machine's systemd: there it is `units.json`, a
mapping from names to the fields of a `UnitState`, and without it nothing is known of any unit.
Source: systemctl(1), org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping

from rocmwatch.model import UnitState

LINKS = "/run/systemd/units"
FILE = "units.json"
SHOW_SECONDS = 3.0
AGAIN_SECONDS = 60.0  # what no link tells: a unit that failed to start, a main process that ended
STEADY = frozenset({"active", "inactive", "failed"})
_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}\.(?:service|scope)")
_PROPERTIES = {
    "Id": "name",
    "LoadState": "load_state",
    "ActiveState": "active_state",
    "SubState": "sub_state",
    "InvocationID": "invocation",
    "MainPID": "main_pid",
    "ExecMainExitTimestampMonotonic": "main_exited_at",
    "NRestarts": "restarts",
}
_MICROSECONDS = 1_000_000


def is_unit(name: str) -> bool:
    """Whether a text is the name of a service or scope, and nothing that systemctl could take for an option."""
    return _NAME.fullmatch(name) is not None and not name.startswith("-")


def parse_show(text: str) -> dict[str, UnitState]:
    """The units in the output of `systemctl show`: blocks of `Key=value`, in any order, empty lines between."""
    found = {}
    for block in text.split("\n\n"):
        pairs = dict(line.partition("=")[::2] for line in block.splitlines())
        values = {field: pairs.get(key, "") for key, field in _PROPERTIES.items()}
        if values["name"]:
            found[values["name"]] = UnitState(
                name=values["name"],
                load_state=values["load_state"],
                active_state=values["active_state"],
                sub_state=values["sub_state"],
                invocation=values["invocation"],
                main_pid=_number(values["main_pid"]),
                main_exited_at=_number(values["main_exited_at"]) / _MICROSECONDS,
                restarts=_number(values["restarts"]),
            )
    return found


class Units:
    """The states of units.

    Attributes:
        trouble: Why nothing is known; empty when it is.
    """

    def __init__(self, root: str = "", systemctl: str = "systemctl") -> None:
        self.trouble = ""
        self._root = root
        self._systemctl = systemctl
        self._states: dict[str, UnitState] = {}
        self._links: dict[str, str | None] = {}
        self._shown_at: dict[str, float] = {}
        self._retry_at = 0.0

    def look(self, names: Iterable[str], now: float) -> Mapping[str, UnitState] | None:
        """The states of these units; one that systemd does not know is `not-found`.

        Args:
            names: With their suffixes.
            now: Monotonic time.

        Returns:
            `None` when it is not known of any.
        """
        wanted = {name for name in names if is_unit(name)}
        if self._root:
            return self._from_file(wanted)
        links = {name: self._link(name) for name in wanted}
        stale = sorted(name for name in wanted if self._is_stale(name, links[name], now))
        self._states = {name: state for name, state in self._states.items() if name in wanted}
        if stale and now >= self._retry_at:
            shown = self._show(stale)
            if shown is None:
                self._retry_at = now + AGAIN_SECONDS
            else:
                self._states.update(shown)
                self._shown_at.update(dict.fromkeys(stale, now))
                self._links.update({name: links[name] for name in stale})
        if self.trouble:
            return None  # a state that may be another by now is none
        return dict(self._states)

    def _is_stale(self, name: str, link: str | None, now: float) -> bool:
        state = self._states.get(name)
        return (
            state is None
            or link != self._links.get(name)
            or state.active_state not in STEADY
            or now - self._shown_at.get(name, -AGAIN_SECONDS) >= AGAIN_SECONDS
        )

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(f"{LINKS}/invocation:{name}")
        except OSError:
            return None

    def _show(self, names: Collection[str]) -> dict[str, UnitState] | None:
        command = [self._systemctl, "--no-pager", "show", "-p", ",".join(_PROPERTIES), "--", *names]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SHOW_SECONDS,
                check=False,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.trouble = f"systemctl show: {error}"
            return None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            self.trouble = f"systemctl show: {said[0] if said else f'exit status {done.returncode}'}"
            return None
        self.trouble = ""
        return parse_show(done.stdout.decode("utf-8", "replace"))

    def _from_file(self, wanted: Collection[str]) -> Mapping[str, UnitState] | None:
        path = f"{self._root}/{FILE}"
        try:
            with open(path, encoding="utf-8") as file:
                listed = json.load(file)
            return {name: UnitState(name=name, **listed[name]) for name in wanted if name in listed}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            self.trouble = f"{path}: {error!s:.100}"
            return None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
