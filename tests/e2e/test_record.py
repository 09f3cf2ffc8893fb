"""`rocmwatch record` as people call it: what it says, what it leaves behind, and what the archive is good for."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.running import COMMAND, Finished, environment, eventually, run
from record_trees import SECRETS, contents, everything, inhabit, manifest

from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Where to; nothing but what is asked for may be there at the end."""
    folder = tmp_path / "out"
    folder.mkdir()
    yield folder / "node.tar.gz"
    assert {path.name for path in folder.iterdir()} <= {"node.tar.gz", "unpacked"}


def sample(root: str | Path) -> dict[str, Any]:
    finished = run("sample", "--root", str(root), "--format", "json")
    assert (0, "") == (finished.status, finished.err)
    document = json.loads(finished.out)
    document.pop("taken_at")
    for gpu in document["gpus"]:
        gpu.pop("sampled_at")
    assert isinstance(document, dict)
    return document


def test_the_archive_says_what_the_node_says(node: Node, out: Path) -> None:
    made = node("mi300x-cpx", gpus=2)
    made.step(60)
    root = inhabit(made.root)
    finished = run("record", str(out), "--root", str(root))

    assert (0, "") == (finished.status, finished.err)
    assert re.match(
        rf"Reading \d+ files of 2 GPUs and \d+ processes; --list names them\.\nReplaced in the archive: .*\n"
        rf"Writing {re.escape(str(out))}\.\n",
        finished.out,
    )
    assert f"{out}: " in finished.out
    assert 0o600 == out.stat().st_mode & 0o777
    unpacked = out.parent / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xzf", out, "-C", unpacked], check=True)
    assert sample(root) == sample(unpacked) == sample(out)
    text = everything(out).lower()
    assert [] == [
        secret for secret in (*SECRETS, *(place.serial for place in made.places)) if secret.lower().encode() in text
    ]


def test_the_list_names_what_an_archive_holds(node: Node, out: Path) -> None:
    root = inhabit(node("mi300x").root)
    listed = run("record", "--list", "--root", str(root))
    lines = dict(re.fullmatch(r"(/\S+)(?:  \((.*)\))?", line).groups() for line in listed.out.splitlines())  # type: ignore[union-attr]
    assert 0 == run("record", str(out), "--root", str(root)).status

    assert (0, "") == (listed.status, listed.err)
    device = next(path for path in lines if path.endswith("/unique_id")).rpartition("/")[0]
    assert ("scrubbed", None, "of an awake GPU only") == tuple(
        lines[f"{device}/{name}"] for name in ("unique_id", "mem_info_vram_total", "gpu_metrics")
    )
    read = {row["path"] for row in manifest(out)["files"] if row["outcome"] == "read" and "/cgroup/" not in row["path"]}
    assert read == {path for path in lines if "/cgroup/" not in path}


def test_a_list_writes_nothing(node: Node, out: Path) -> None:
    assert 0 == run("record", "--list", str(out), "--root", node("mi300x").root).status
    assert not out.exists()


@pytest.mark.parametrize("arguments", [(), ("--force",)])
def test_without_a_name_it_is_a_wrong_call(arguments: tuple[str, ...]) -> None:
    finished = run("record", *arguments)

    assert (2, True) == (finished.status, "Missing argument" in finished.err)


def test_a_file_is_replaced_only_by_force(node: Node, out: Path) -> None:
    root = node("mi300x").root
    out.write_text("mine")
    refused = run("record", str(out), "--root", root)
    assert (3, f"rocmwatch: {out} is there already; --force replaces it\n") == (refused.status, refused.err)
    assert "mine" == out.read_text()

    assert 0 == run("record", str(out), "--force", "--root", root).status
    assert "manifest.json" in contents(out)


@pytest.mark.parametrize("name", ["nowhere/node.tar.gz", "a" * 300])
def test_a_place_that_cannot_be_written_is_said_before_anything_is_read(node: Node, out: Path, name: str) -> None:
    finished = run("record", str(out.parent / name), "--root", node("mi300x").root)

    assert (1, "") == (finished.status, finished.out)
    assert re.fullmatch(
        r"rocmwatch: .*: (No such file or directory|File name too long); nothing was written\n", finished.err
    )


def test_a_folder_is_not_replaced(node: Node, out: Path) -> None:
    finished = run("record", str(out.parent), "--force", "--root", node("mi300x").root)

    assert (3, f"rocmwatch: {out.parent} is a folder\n") == (finished.status, finished.err)


def test_a_file_that_may_not_grow_leaves_nothing(node: Node, out: Path) -> None:
    most = 1 << 20  # what the reader's mailbox needs

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    made = node("mi300x")
    for number in range(12):
        Path(made.root, made.places[0].device, f"fw_version/fw{number}").write_bytes(os.urandom(120_000))
    finished = run("record", str(out), "--root", made.root, preexec_fn=limit)

    assert (1, f"rocmwatch: {out}: File too large; nothing was written\n") == (finished.status, finished.err)


def test_a_full_disk_leaves_nothing(node: Node, tmp_path: Path, require: Callable[..., None]) -> None:
    require("root")
    root = node("mi300x", gpus=8).root
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=8k tmpfs {disk} && {{ {' '.join(COMMAND)} record {disk}/node.tar.gz --root {root}; "
        f"echo status $?; ls -A {disk}; }}"
    )
    finished = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    if "unshare" in finished.stderr or "mount:" in finished.stderr:
        require("root", f"no mount namespace here: {finished.stderr}")

    assert finished.stdout.endswith("status 1\n"), finished.stdout + finished.stderr
    assert f"rocmwatch: {disk}/node.tar.gz: No space left on device; nothing was written\n" == finished.stderr


def test_without_a_reader_there_is_no_archive(node: Node, out: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    finished = run("record", str(out), "--root", node("mi300x").root, preexec_fn=limit)

    assert (1, True) == (finished.status, finished.err.endswith("; nothing was written\n")), finished.err
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(node: Node, out: Path, number: signal.Signals) -> None:
    made = node("mi300x")
    os.mkfifo(Path(made.root, "sys/module/amdgpu/parameters/wait"))  # a reader that waits, and no end to it
    process = subprocess.Popen(
        [*COMMAND, "record", str(out), "--root", made.root], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(),
    )  # fmt: skip
    writer = os.open(Path(made.root, "sys/module/amdgpu/parameters/wait"), os.O_RDWR)
    eventually(lambda: list(out.parent.iterdir()), "its file")
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    os.close(writer)

    assert (1, "rocmwatch: interrupted; nothing was written\n") == (process.returncode, error)


def test_a_node_that_moves_is_recorded(node: Node, out: Path) -> None:
    made = node("mi300x", gpus=2)
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            made.step(5)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        finished = run("record", str(out), "--root", made.root)
    finally:
        stop.set()
        mover.join()

    assert (0, "") == (finished.status, finished.err)
    rows = manifest(out)["files"]
    assert [] == [row for row in rows if row["outcome"] == "failed"]
    assert ["active", "active"] == [gpu["state"] for gpu in sample(out)["gpus"]]


def test_a_node_without_a_gpu_is_recorded_and_said(out: Path, tmp_path: Path) -> None:
    (tmp_path / "root/sys").mkdir(parents=True)
    finished = run("record", str(out), "--root", str(tmp_path / "root"))

    assert (1, True) == (finished.status, "no AMD GPU" in finished.err)
    assert [] == manifest(out)["gpus"]


def test_the_machine_itself_can_be_recorded(out: Path) -> None:
    """Whatever it is: this one has no GPU, most likely."""
    finished = run("record", str(out))

    assert finished.status in {0, 1, 4}, finished.err
    assert "this machine" == manifest(out)["of"]
    host = os.uname().nodename
    assert len(host) < 5 or host.encode() not in everything(out)


def test_the_same_key_makes_the_same_names(node: Node, out: Path) -> None:
    root = inhabit(node("mi300x").root)
    found = []
    for key in ("1", "1", "2"):
        assert 0 == run("record", str(out), "--force", "--key", key, "--root", str(root)).status
        found.append({name: data for name, data in contents(out).items() if name != "manifest.json"})

    assert found[0] == found[1] != found[2]


def test_hostile_names_do_no_harm(node: Node, out: Path) -> None:
    made = node("mi300x")
    root = inhabit(made.root)
    device = root / made.places[0].device
    (device / "product_name").write_bytes(b"<script>alert(1)</script>\xff\xfe\x1b[31m\n")
    (device / "serial_number").write_bytes(b"<b>S\xff12345678</b>\nsecond line\n")
    (root / "proc/94242/comm").write_bytes(b"\xff<i>\n\x1b]0;x\x07\n")
    (root / "proc/sys/kernel/hostname").write_bytes(b"\xff<u>h\xc3\xb6st\n")
    group = os.fsencode(root) + b"/sys/fs/cgroup/\xff<i>\x1b.slice"
    os.mkdir(group)
    Path(os.fsdecode(group), "dmem.current").write_text(f"drm/{made.places[0].pci}/vram 4096\n")
    finished = run("record", str(out), "--root", str(root))

    assert (0, "") == (finished.status, finished.err)
    assert b"S\xff12345678" not in everything(out)
    assert all(name.isascii() for name in contents(out))
    assert sample(root) == sample(out)
    listed = run("record", "--list", "--root", str(root))
    assert (0, False) == (listed.status, "\x1b" in listed.out)


def test_what_is_no_record_is_no_root(tmp_path: Path) -> None:
    archive = tmp_path / "other.tar.gz"
    archive.write_bytes(b"nothing of the kind")
    finished: Finished = run("sample", "--root", str(archive))

    assert (2, True) == (finished.status, "no whole .tar.gz" in finished.err)


def test_a_root_that_was_unpacked_is_cleared_away(node: Node, out: Path, tmp_path: Path) -> None:
    assert 0 == run("record", str(out), "--root", node("mi300x").root).status
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert 0 == run("sample", "--root", str(out), env=environment(TMPDIR=str(scratch))).status

    assert [] == list(scratch.iterdir())
