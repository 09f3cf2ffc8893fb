from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocmwatch.simulate.live_file import GRACE_SECONDS, LiveFile, replace_file

# Reads open files over and over until its input ends, then tells every text that it saw.
READER = """
import json, os, select, sys
files = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
seen = [set() for _ in files]
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(200):
        for file, texts in zip(files, seen):
            texts.add(os.pread(file, 4096, 0))
print(json.dumps([[text.hex() for text in texts] for texts in seen]))
"""


def test_a_file_keeps_its_inode_and_ends_with_exactly_the_new_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"7\n")
    inode = path.stat().st_ino
    file = LiveFile(str(path), b"7\n")

    for text in (b"45\n", b"185561120768\n", b"9\n", b"9\n", b"\x00\xff"):
        file.make_room(text)
        file.write(text)
        assert text == path.read_bytes()

    assert inode == path.stat().st_ino
    file.close()


def test_bytes_that_someone_else_put_there_are_gone_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"7\n")
    file = LiveFile(str(path), b"7\n")

    path.write_bytes(b"a fault that a test has put in\n")
    file.write(b"45\n")

    assert b"45\n" == path.read_bytes()
    file.close()


def test_the_same_bytes_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"7\n")
    os.utime(path, (1, 1))
    file = LiveFile(str(path), b"7\n")

    file.write(b"7\n")

    assert 1 == path.stat().st_mtime
    file.close()


def test_a_text_of_the_same_length_changes_at_once(tmp_path: Path) -> None:
    texts = (b"2977955\n", b"1855611\n")  # one word: longer ones are copied at once on most processors, not on all

    assert set(texts) == _seen(tmp_path, texts, times=40_000, pause=0)


@pytest.mark.parametrize(
    "texts",
    [
        (b"9\n", b"100\n"),
        (b"297795584\n", b"185561120768\n"),
        (b"S: 132Mhz *\n0: 500Mhz\n1: 2100Mhz\n", b"0: 500Mhz \n1: 2100Mhz *\n"),
    ],
)
def test_a_reader_sees_the_old_text_or_the_new_one_and_nothing_else(tmp_path: Path, texts: tuple[bytes, bytes]) -> None:
    seen = {text.rstrip(b"\n\0") for text in _seen(tmp_path, texts, times=100, pause=0.002)}

    assert {text.rstrip(b"\n") for text in texts} == seen


def _seen(tmp_path: Path, texts: tuple[bytes, bytes], *, times: int, pause: float) -> set[bytes]:
    """Every text that another process sees in a file that changes from one to the other all the time."""
    path = tmp_path / "file"
    path.write_bytes(texts[0])
    file = LiveFile(str(path), texts[0])
    command = [sys.executable, "-c", READER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdout.readline()
        for number in range(1, times + 1):
            if file.make_room(texts[number % 2]):
                time.sleep(GRACE_SECONDS)
            file.write(texts[number % 2])
            if pause:
                time.sleep(pause)
        reader.stdin.close()
        (seen,) = json.loads(reader.stdout.read())
    file.close()
    return {bytes.fromhex(text) for text in seen}


def test_a_long_text_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"old" * 500)
    with path.open("rb") as old:
        replace_file(str(path), b"new" * 600, str(tmp_path / "scratch"))

        assert b"old" * 500 == old.read()
    assert b"new" * 600 == path.read_bytes()
    assert ["table"] == os.listdir(tmp_path)
