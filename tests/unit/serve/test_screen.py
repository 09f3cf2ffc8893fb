"""The screen of `rocmwatch top`: complete where there is room, and never larger than the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from unit.serve import views

from rocmwatch.judge.trends import Trends
from rocmwatch.model import View
from rocmwatch.serve.documents import sample_document, status_document
from rocmwatch.serve.screen import Picture, Wish, help_picture, picture
from rocmwatch.serve.trends_document import trends_document

Documents = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def documents(view: View) -> Documents:
    trends = Trends()
    for step in range(100):
        last = trends.take(view.snapshot, 5.0 * step, views.NOW, 5.0)
    view = replace(view, trends=last)
    return sample_document(view.snapshot), status_document(view, views.NOW), trends_document(view)


HEALTHY = documents(views.view(views.reading(0), views.mi300x_cpx(1), notes=()))
EVERY = documents(views.every_state())
HOSTILE = documents(views.hostile())


def plain(its: Picture) -> list[str]:
    return [line.plain.rstrip() for line in its.lines]


def test_a_gpu_is_a_line_at_80_by_24() -> None:
    lines = plain(picture(*HEALTHY, Wish(80, 24)))

    assert 24 == len(lines)
    assert lines[0].startswith("node7  2 GPUs, 76.0 GiB of 256.0 GiB in use, 482 W  read 2 s ago")
    assert "GPU STATE     USED                         TEMP  MHz         W BUSY FRAG HOUR" == lines[1]
    assert lines[2].startswith("  0 active    ██████░░  75%    48.0/64G  63/100 1700   241/300  97%   6% ▇▇▇▇")
    assert lines[-1] == "q quit  p partitions  ? help"


def test_more_room_shows_more() -> None:
    assert "0000:05:00.0" in plain(picture(*HEALTHY, Wish(120, 40)))[2]
    assert "0000:05:00.0" not in plain(picture(*HEALTHY, Wish(80, 24)))[2]


def test_partitions_are_shown_when_they_are_wanted() -> None:
    lines = plain(picture(*HEALTHY, Wish(80, 24, partitions=True)))

    assert "  1.1  1.0/24G  busy 12%  2099 MHz" in lines
    assert not [line for line in plain(picture(*HEALTHY, Wish(80, 24))) if "1.1" in line]


def test_what_should_not_be_so_is_said_below() -> None:
    lines = plain(picture(*HEALTHY, Wish(80, 24)))

    assert "GPU 1: held down 25% of the time by power" in lines


def test_what_does_not_fit_is_scrolled_to() -> None:
    first = picture(*EVERY, Wish(80, 8))
    last = picture(*EVERY, Wish(80, 8, first=99))

    assert (7, 5) == (first.rows, first.room)
    assert plain(first)[2].lstrip().startswith("0")
    assert plain(last)[6].lstrip().startswith("6")
    assert "lines 3 to 7 of 7, arrows scroll" in plain(last)[7]


def test_a_window_that_is_too_small_shows_what_it_can() -> None:
    assert ["small: 2 GPUs", "0 75% 63C active", "1 15% 71C active"] == plain(picture(*HEALTHY, Wish(20, 5)))
    assert "small: 4-7 of 7 GPUs" == plain(picture(*EVERY, Wish(20, 5, first=99)))[0]
    assert ["small: 7 GPUs"] == plain(picture(*EVERY, Wish(20, 1, first=99)))


def test_a_gpu_that_says_nothing_is_said_below_with_the_age_of_what_is_known() -> None:
    sample, status, trends = EVERY
    old = [{**gpu, "age_seconds": 125 if gpu["state"] == "stalled" else gpu["age_seconds"]} for gpu in status["gpus"]]
    lines = plain(picture(sample, {**status, "gpus": old}, trends, Wish(80, 24)))

    assert "GPU 2: stalled, memory read 2 min 5 s ago" in lines
    assert not [line for line in lines if line.startswith("GPU 1")]  # suspended is no trouble


def test_messages_without_room_are_counted() -> None:
    assert plain(picture(*EVERY, Wish(80, 8)))[-1].endswith("+9 messages")
    assert "message" not in plain(picture(*EVERY, Wish(80, 24)))[-1]


def test_the_largest_values_keep_the_columns_in_line() -> None:
    sample, status, trends = HEALTHY
    limits = {"power_cap_watts": 1400.0, "temperatures_celsius": {"junction": {"critical": 110.0}}}
    hot = {**sample["gpus"][0], "power_watts": 1321.0, "temperatures_celsius": {"junction": 109.0}, "limits": limits}
    heading, row = plain(picture({**sample, "gpus": [hot]}, status, trends, Wish(80, 24)))[1:3]

    assert "109/110 1700 1321/1400  97%" in row
    assert (heading.index("W BUSY"), heading.index("FRAG")) == (row.index("1400") + 3, row.index("  6%"))


def test_a_terminal_of_plain_letters_gets_plain_letters() -> None:
    odd = {**EVERY[1], "hostname": "knöten漢"}
    for line in plain(picture(EVERY[0], odd, EVERY[2], Wish(100, 30, ascii=True))):
        assert line.isascii()


def test_a_pipe_gets_every_line() -> None:
    its = picture(*EVERY, Wish(120, 0, partitions=True))

    assert its.rows == 7 + 8
    assert not [line for line in plain(its) if "quit" in line]


def test_without_a_daemon_there_is_neither_status_nor_hour() -> None:
    sample, _, _ = HEALTHY

    assert plain(picture(sample, None, None, Wish(80, 24)))[0].startswith("this node  2 GPUs")


def test_old_data_is_made_to_stand_out() -> None:
    sample, status, trends = HEALTHY
    old = {**status, "snapshot": {**status["snapshot"], "age_seconds": 31}}
    styles = [str(span.style) for span in picture(sample, old, trends, Wish(80, 24)).lines[0].spans]

    assert "bold yellow" in styles


@pytest.mark.parametrize(
    "its", [HEALTHY, EVERY, HOSTILE, documents(views.view())], ids=["healthy", "every", "hostile", "none"]
)
@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(1, 60), st.integers(-5, 100), st.booleans(), st.booleans())
def test_nothing_is_larger_than_the_terminal(
    its: Documents, width: int, height: int, first: int, partitions: bool, ascii_only: bool
) -> None:
    wish = Wish(width, height, first, partitions, ascii_only)
    for made in (picture(*its, wish), help_picture(wish)):
        assert len(made.lines) <= height
        for line in made.lines:
            assert cell_len(line.plain) <= width
            assert line.plain.isprintable()
