"""The mirror does what its rules say, and a killed reader of it is stuck as in a driver."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faultfs import FaultFS, Rules
from watching import eventually, state_of

pytestmark = pytest.mark.fuse

Mirror = Callable[..., FaultFS]
READ = "import os, sys; os.pread(os.open(sys.argv[1], os.O_RDONLY), 64, 0)"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "devices/gpu").mkdir(parents=True)
    (folder / "devices/gpu/used").write_text("123456789012345\n")
    (folder / "devices/gpu/busy").write_text("7\n")
    (folder / "class").mkdir()
    (folder / "class/card1").symlink_to("../devices/gpu")
    (folder / "class/absolute").symlink_to(folder / "devices/gpu")
    return folder


def test_without_rules_everything_is_as_in_the_tree(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree)

    assert sorted(os.listdir(fs.root)) == ["class", "devices"]
    assert os.readlink(fs.root / "class/card1") == "../devices/gpu"
    assert (fs.root / "class/card1/used").read_bytes() == b"123456789012345\n"
    with pytest.raises(FileNotFoundError):
        (fs.root / "class/card1/none").read_bytes()


def test_a_link_to_a_path_inside_the_tree_stays_inside_the_mirror(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"/devices/gpu/busy": "EIO"})

    assert os.readlink(fs.root / "class/absolute") == str(fs.root / "devices/gpu")
    with pytest.raises(OSError, match="Input/output"):
        (fs.root / "class/absolute/busy").read_bytes()


@pytest.mark.parametrize(
    ("rule", "content"),
    [
        ("empty", b""),
        ("short:10", b"1234567890"),
        ("text:99\n", b"99\n"),
        ("hex:00ff10", b"\x00\xff\x10"),
        ("slow:0.01", b"123456789012345\n"),
    ],
)
def test_a_rule_changes_what_is_read(tree: Path, mirror: Mirror, rule: str, content: bytes) -> None:
    fs = mirror(tree, {"/devices/gpu/used": rule})

    assert (fs.root / "class/card1/used").read_bytes() == content
    assert (fs.root / "class/card1/busy").read_bytes() == b"7\n"


@pytest.mark.parametrize("name", ["EIO", "EBUSY", "EPERM", "ENODEV"])
def test_a_read_fails_with_the_named_error(tree: Path, mirror: Mirror, name: str) -> None:
    fs = mirror(tree, {"/devices/gpu/used": name})
    descriptor = os.open(fs.root / "devices/gpu/used", os.O_RDONLY)

    with pytest.raises(OSError, match=os.strerror(getattr(errno, name))):
        os.pread(descriptor, 64, 0)
    os.close(descriptor)


def test_an_open_fails_where_reading_would_not(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"/devices/gpu/used": "open:EACCES"})

    with pytest.raises(PermissionError):
        os.open(fs.root / "devices/gpu/used", os.O_RDONLY)


def test_a_folder_or_a_name_can_fail_too(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"/class": "list:EIO", "/devices": "stat:ENOENT"})

    with pytest.raises(OSError, match="Input/output"):
        os.listdir(fs.root / "class")
    assert not (fs.root / "devices").exists()


def test_a_pattern_reaches_every_folder(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"*/us?d": "EIO"})

    with pytest.raises(OSError, match="Input/output"):
        (fs.root / "class/card1/used").read_bytes()
    assert (fs.root / "class/card1/busy").read_bytes() == b"7\n"


def test_rules_reach_a_descriptor_that_is_already_open(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree)
    descriptor = os.open(fs.root / "devices/gpu/busy", os.O_RDONLY)
    before = os.pread(descriptor, 64, 0)
    fs.set({"/devices/gpu/busy": "EIO"})

    assert before == b"7\n"
    with pytest.raises(OSError, match="Input/output"):
        os.pread(descriptor, 64, 0)
    fs.release()
    (tree / "devices/gpu/busy").write_text("8\n")  # in place: the same file, as a driver does it
    assert os.pread(descriptor, 64, 0) == b"8\n"
    os.close(descriptor)


def test_a_hanging_read_gets_its_answer_on_release(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"/devices/gpu/busy": "hang"})
    answers: list[bytes] = []
    reader = threading.Thread(target=lambda: answers.append((fs.root / "devices/gpu/busy").read_bytes()))
    reader.start()
    reader.join(0.3)
    held = list(answers)
    fs.release()
    reader.join(5)

    assert held == []
    assert answers == [b"7\n"]


def test_a_killed_reader_is_stuck_until_the_serving_process_dies(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"/devices/gpu/busy": "hang"})
    path = fs.root / "devices/gpu/busy"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", READ, path]) as reader:
        held = eventually(lambda: fs.held() == ["/devices/gpu/busy"])
        reader.kill()
        stuck = eventually(lambda: state_of(reader.pid) == "D")
        time.sleep(0.3)
        later = state_of(reader.pid)
        other = (fs.root / "devices/gpu/used").read_bytes()
        fs.kill()

    assert (True, True, "D") == (held, stuck, later)
    assert other == b"123456789012345\n", "others are served meanwhile"
    assert reader.returncode == -signal.SIGKILL


def test_many_hanging_reads_do_not_stop_the_others(tree: Path, mirror: Mirror) -> None:
    fs = mirror(tree, {"/devices/gpu/busy": "hang"})
    path = fs.root / "devices/gpu/busy"
    readers = [subprocess.Popen([sys.executable, "-I", "-S", "-c", READ, path]) for _ in range(20)]
    held = eventually(lambda: len(fs.held()) == 20)
    other = (fs.root / "devices/gpu/used").read_bytes()
    fs.release()
    ended = [reader.wait() for reader in readers]

    assert held
    assert other == b"123456789012345\n"
    assert ended == [0] * 20


def test_no_mount_is_left_behind_when_the_test_process_is_killed(tree: Path, tmp_path: Path) -> None:
    root = tmp_path / "orphaned"
    code = (
        "import sys; from faultfs import FaultFS; FaultFS(*sys.argv[1:]).start(); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, tree, root]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as test:
        assert test.stdout is not None
        test.stdout.readline()
        mounted = os.path.ismount(root)
        test.kill()

    assert mounted
    assert eventually(lambda: str(root) not in Path("/proc/self/mounts").read_text())


def test_a_half_written_rules_file_keeps_the_last_good_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text('{"/a": "EIO"}')
    rules = Rules(str(file))
    good = rules.find("read", "/a")
    file.write_text('{"/a": "hang", ')
    os.utime(file, (1, 1))

    assert good == "EIO"
    assert rules.find("read", "/a") == "EIO"
    assert rules.find("open", "/a") == ""


def test_a_whole_node_can_be_served(tmp_path: Path, mirror: Mirror) -> None:
    """600 files, as of eight GPUs, opened and read within a tick."""
    folder = tmp_path / "tree/sys"
    for gpu in range(8):
        (folder / f"gpu{gpu}").mkdir(parents=True)
        for number in range(75):
            (folder / f"gpu{gpu}/file{number}").write_text("1\n")
    fs = mirror(tmp_path / "tree", {f"/sys/gpu0/none{number}": "EIO" for number in range(100)})
    files = [fs.root / f"sys/gpu{gpu}/file{number}" for gpu in range(8) for number in range(75)]
    started = time.monotonic()
    contents = {file.read_bytes() for file in files}
    taken = time.monotonic() - started

    assert contents == {b"1\n"}
    assert taken < 5.0, f"{taken:.2f} s for {len(files)} files"
