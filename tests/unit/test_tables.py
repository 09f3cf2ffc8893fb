from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from unit.serve import views

from rocmwatch.serve.documents import sample_document, status_document
from rocmwatch.serve.tables import print_sample, status_lines

WORST: Mapping[str, Any] = {  # the widest that each column gets
    "gpu": "63",
    "pci": "10000:e5:00.0",
    "state": "suspended",
    "product": "AMD Instinct MI300X OAM",
    "pool": "vram",
    "pool_total_bytes": 1023 << 30,
    "pool_used_bytes": 1023 << 30,
    "temperatures_celsius": {"edge": None, "junction": 105.0, "memory": None},
    "clocks_hertz": {"sclk": 2.1e9, "mclk": None},
    "power_watts": 1400.0,
    "busy_ratio": {"gfx": 1.0, "memory": None},
    "fragmentation": {"ratio": 1.0},
    "partitions": [],
    "faults": [{}] * 12,
}
ANSI = re.compile(r"\033\[[\d;]*m")
NOTHING: Mapping[str, Any] = WORST | {
    "state": "lost",
    "pool_total_bytes": None,
    "pool_used_bytes": None,
    "temperatures_celsius": {"edge": None, "junction": None, "memory": None},
    "clocks_hertz": {"sclk": None, "mclk": None},
    "power_watts": None,
    "busy_ratio": {"gfx": None, "memory": None},
    "fragmentation": None,
    "faults": [],
}


class Output(io.TextIOWrapper):
    """Standard output, a terminal or none."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="replace")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


def printed(
    monkeypatch: pytest.MonkeyPatch,
    *gpus: Mapping[str, Any],
    columns: int | None = None,
    encoding: str = "utf-8",
    clear: bool = False,
    **env: str,
) -> str:
    """The table, on a terminal of that many columns, or in a pipe."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm", "COLUMNS": str(columns or 80)} | env).items():
        monkeypatch.setenv(name, value)
    output = Output(encoding, terminal=columns is not None)
    print_sample({"gpus": gpus}, output, clear=clear)
    return output.text()


def test_a_gpu_is_a_row_in_the_order_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    document = sample_document(views.every_state().snapshot)
    lines = printed(monkeypatch, *document["gpus"]).splitlines()  # type: ignore[misc]

    assert lines[0].split() == ["GPU", "PCI", "state", "pool", "used", "°C", "MHz", "W", "busy", "frag", "!"]
    assert lines[1].split() == (
        [
            "0",
            "0000:05:00.0",
            "active",
            "vram",
            "█░░░░░░░░░",
            "15%",
            "28.0/192.0",
            "GiB",
            "71",
            "1700",
            "241",
            "97%",
            "6.2%",
        ]
    )
    assert [line.split()[2] for line in lines[1:]] == (
        ["active", "suspended", "stalled", "resetting", "lost", "active", "active"]
    )


def test_what_is_not_known_is_a_dash_and_never_0(monkeypatch: pytest.MonkeyPatch) -> None:
    row = printed(monkeypatch, NOTHING).splitlines()[1].split()

    assert row == ["63", "10000:e5:00.0", "lost", "vram", *"--------"]


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_a_row_is_a_line_and_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    text = ANSI.sub("", printed(monkeypatch, WORST, NOTHING, columns=columns))

    assert len(text.splitlines()) == 3
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    assert [line.split()[2] for line in text.splitlines()] == ["state", "suspended", "lost"]
    assert ("pool" in text) == (columns > 100)


@pytest.mark.parametrize("columns", [1, 10, 40])
def test_even_a_terminal_without_room_gets_a_line_a_row(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    assert len(printed(monkeypatch, WORST, NOTHING, columns=columns, NO_COLOR="1").splitlines()) == 3


def test_in_a_pipe_it_is_whole_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, WORST, NOTHING)

    assert "pool" in text
    assert "\033" not in text


def test_on_a_terminal_a_gpu_in_trouble_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    _, healthy, lost = printed(monkeypatch, WORST, NOTHING, columns=120).splitlines()

    assert "\033[1;31m" in lost
    assert "31m" not in healthy


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_it_has_no_colours_where_nobody_wants_them(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    text = printed(monkeypatch, NOTHING, columns=120, clear=True, **{name: value})

    assert "31m" not in text
    assert ("\033" in text) == (name == "NO_COLOR")  # bold is no colour, and clearing is not either


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_without_unicode_it_is_drawn_with_what_there_is(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    text = printed(monkeypatch, WORST, WORST | {"pool_used_bytes": 0}, encoding=encoding)

    assert "?" not in text
    assert "##########" in text
    assert ".........." in text
    assert " C " in text


def test_words_of_others_are_text_and_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, WORST | {"state": "[red]x[/red]", "pci": "[/nonsense]"})

    assert "[red]x[/red]" in text
    assert "[/nonsense]" in text


def test_clearing_comes_before_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, WORST, columns=120, clear=True)

    assert text.startswith("\033[2J\033[H")


# status ----------------------------------------------------------------------------------------------------------


def told(view: object = None, **changes: object) -> list[str]:
    view = views.view(views.reading(0), views.reading(1)) if view is None else view
    return status_lines(status_document(replace(view, **{"root": "", **changes}), views.NOW))  # type: ignore[type-var]


def test_status_says_who_where_since_when_and_how_fresh() -> None:
    assert told() == [
        "rocmwatch 0.1.0 on node7, up 1 h 1 min",
        "  GPUs           2 (2 active)",
        "  fragmentation  read 40 s ago, took 2.0 ms",
        "  memory         read 2 s ago, took 4.0 ms",
        "  sensors        read 2 s ago, took 11.0 ms",
        "  topology       never read",
        "  readers        1 restarted, 0 abandoned",
        "  note           debugfs cannot be read: no fragmentation",
    ]


def test_status_names_each_gpu_that_is_in_trouble() -> None:
    lines = told(views.every_state())

    assert lines[1] == "  GPUs           7 (3 active, 1 suspended, 1 stalled, 1 resetting, 1 lost)"
    assert lines[2:5] == [
        "  GPU 2          0000:45:00.0 stalled, memory read 2 s ago",
        "  GPU 3          0000:65:00.0 resetting, memory read 2 s ago, 1 failed read",
        "  GPU 4          0000:85:00.0 lost, memory read 2 s ago",
    ]
    assert not any(line.startswith("  GPU 1 ") for line in lines)


def test_status_of_a_node_without_gpus() -> None:
    assert told(views.view())[1] == "  GPUs           0"


def test_status_says_when_it_is_not_about_this_machine() -> None:
    assert "  root           /tmp/node, not this machine's own files" in told(root="/tmp/node")


def test_status_says_that_a_reload_was_refused() -> None:
    assert any("reload was refused" in line for line in told(config_last_reload_successful=False))
    assert not any("reload" in line for line in told())
