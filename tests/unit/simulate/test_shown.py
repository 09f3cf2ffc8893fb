"""A tree that changes under those who read it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rocmwatch.simulate.shown import ShownTree
from rocmwatch.simulate.tree import Tree


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[ShownTree]:
    with closing(ShownTree(str(tmp_path), ".next")) as shown:
        shown.write(Tree(files={"sys/a": b"1\n", "sys/b": b"one\n"}), ["sys/a"])
        yield shown


def test_whoever_has_a_file_open_sees_it_change(shown: ShownTree, tmp_path: Path) -> None:
    with open(tmp_path / "sys/b", "rb", buffering=0) as file:
        shown.show(Tree(files={"sys/a": b"1\n", "sys/b": b"another one\n"}))

        assert b"another one\n" == file.read()


def test_a_file_that_is_opened_for_each_reading_is_a_new_one(shown: ShownTree, tmp_path: Path) -> None:
    with open(tmp_path / "sys/b", "rb", buffering=0) as file:
        shown.show(Tree(files={"sys/a": b"1\n", "sys/b": b"two\n"}, renewed={"sys/b"}))

        assert b"one\n" == file.read()
    assert b"two\n" == (tmp_path / "sys/b").read_bytes()


def test_what_goes_says_nothing_more_to_those_who_have_it_open(shown: ShownTree, tmp_path: Path) -> None:
    with open(tmp_path / "sys/a", "rb", buffering=0) as file:
        shown.show(Tree(files={"sys/b": b"one\n"}))

        assert b"" == file.read()
    assert not (tmp_path / "sys/a").exists()


def test_whoever_waits_for_a_file_that_hangs_gets_it_when_it_is_back(shown: ShownTree, tmp_path: Path) -> None:
    shown.show(Tree(files={"sys/b": b"one\n"}, pipes={"sys/a"}))
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "sys/a").read_bytes()), daemon=True)
    reader.start()
    reader.join(0.2)
    waited = reader.is_alive()
    shown.show(Tree(files={"sys/a": b"2\n", "sys/b": b"one\n"}))
    reader.join(20)

    assert waited
    assert [b"2\n"] == read
    assert b"2\n" == (tmp_path / "sys/a").read_bytes()


def test_the_counter_of_changes_is_the_last_to_change(shown: ShownTree, tmp_path: Path) -> None:
    names = [f"sys/{name}" for name in ("generation_id", "name", "zone")]
    shown.show(Tree(files=dict.fromkeys(names, b"1\n")))
    shown.show(Tree(files=dict.fromkeys(names, b"2\n")))

    times = {name: os.stat(tmp_path / name).st_mtime_ns for name in names}
    assert max(times.values()) == times["sys/generation_id"]


def test_what_somebody_took_away_comes_back_when_it_changes(shown: ShownTree, tmp_path: Path) -> None:
    (tmp_path / "sys/b").unlink()
    shown.show(Tree(files={"sys/a": b"1\n", "sys/b": b"one\n"}))
    assert not (tmp_path / "sys/b").exists()
    shown.show(Tree(files={"sys/a": b"1\n", "sys/b": b"two\n"}))

    assert b"two\n" == (tmp_path / "sys/b").read_bytes()
