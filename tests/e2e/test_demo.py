"""The demo: what somebody without a GPU sees first. It tells what it does, shows it, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e import running
from e2e.running import COMMAND, Service, eventually

PAGE = re.compile(r"^ +the page +(http://127\.0\.0\.1:\d+/)$", re.MULTILINE)
CONFIG = re.compile(r" --config (\S+)$", re.MULTILINE)


class Demo(Service):
    """A running demo.

    Attributes:
        folder: Where temporary files go.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder / "tmp"
        self.folder.mkdir()
        super().__init__(folder, TMPDIR=str(self.folder))
        self.program = [*COMMAND, "demo", *arguments]
        self._shown = folder / "shown"

    def begin(self, **options: Any) -> Demo:
        with self._shown.open("wb") as shown:
            self.start(wait=False, stdout=shown, **options)
        return self

    @property
    def shown(self) -> str:
        return self._shown.read_text()

    def page(self) -> str:
        """The address that it names, once it has."""
        return eventually(lambda: PAGE.search(self.shown), "an address")[1]

    def left(self) -> list[str]:
        """What is left of its folders."""
        return os.listdir(self.folder)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with Demo(tmp_path, "--gpus", "2").begin() as demo:
        yield demo


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    assert isinstance(text, str)
    return text


def test_it_says_what_it_is_shows_it_and_ends_by_itself(tmp_path: Path) -> None:
    with Demo(tmp_path, "--for", "4s").begin() as demo:
        page = demo.page()
        html, metrics = fetch(page), fetch(f"{page}metrics")
        config = CONFIG.findall(demo.shown)
        asked = running.run("status", "--config", config[0])
        began = time.monotonic()
        status = demo.wait()
    lines = demo.shown.splitlines()

    assert status == 0
    assert time.monotonic() - began > 1
    assert "MI300X" in html
    assert "rocmwatch_gpus 8.0" in metrics
    assert "8 (8 active)" in asked.out
    assert lines[:2] == ["Making a simulated node: 8 x AMD Instinct MI300X OAM.", "Starting the daemon on it."]
    assert "It ends by itself after 4 s; Ctrl-C ends it now." in lines
    assert re.fullmatch(r"\d\d:\d\d:\d\d  8 GPUs, .+ in use, hottest \d+ °C, \d+ W together", lines[-2])
    assert lines[-1].startswith("Ending")
    assert max(len(line) for line in lines if str(demo.folder) not in line) <= 80
    assert (demo.log, demo.left()) == ("", [])


def test_its_node_is_at_work_from_the_start_and_moves(demo: Demo) -> None:
    page = demo.page()

    def look() -> list[dict[str, Any]]:
        gpus = json.loads(fetch(f"{page}api/v1/snapshot"))["gpus"]
        assert isinstance(gpus, list)
        return gpus

    gpus = look()
    eventually(lambda: look()[0]["power_watts"] != gpus[0]["power_watts"], "other values")

    assert min(gpu["pool_used_bytes"] / gpu["pool_total_bytes"] for gpu in gpus) > 0.5
    assert min(gpu["busy_ratio"]["gfx"] for gpu in gpus) > 0.05
    assert min(gpu["power_watts"] for gpu in gpus) > 200


@pytest.mark.parametrize("model", ["mi300x-cpx", "apu"])
def test_every_model_can_be_shown_at_a_port_of_choice(tmp_path: Path, model: str) -> None:
    port = running.free_port()
    with Demo(tmp_path, "--for", "500ms", "--model", model, "--port", str(port)).begin() as demo:
        page, status = demo.page(), demo.wait()

    assert (page, status) == (f"http://127.0.0.1:{port}/", 0)
    assert (demo.log, demo.left()) == ("", [])


def test_what_happens_in_a_scenario_is_told(tmp_path: Path) -> None:
    with Demo(tmp_path, "--scenario", "gpu-lost", "--gpus", "2", "--kernel", "7.3").begin() as demo:
        demo.page()
        eventually(lambda: " 2 GPUs, 1 lost, " in demo.shown, "a GPU that is lost", seconds=60)
        status = demo.end()

    assert "\nSoon, in gpu-lost: one GPU falls off the bus" in demo.shown
    assert re.search(r" 2 GPUs, \d.+ in use", demo.shown)  # it was there at first
    assert (status, demo.left()) == (0, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_0_and_leaves_nothing(demo: Demo, number: int) -> None:
    demo.page()
    status = demo.end(number)
    demo.is_gone(seconds=1)

    assert (status, demo.left()) == (0, [])
    assert demo.log == ""


@pytest.mark.parametrize("seconds", [0.1, 0.5, 0.9])
def test_a_signal_while_it_starts_leaves_nothing_either(demo: Demo, seconds: float) -> None:
    time.sleep(seconds)
    demo.family()
    demo.end(signal.SIGTERM)
    demo.is_gone()

    assert demo.left() == []
    assert "Traceback" not in demo.log


def test_a_port_in_use_is_one_line_and_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with Demo(tmp_path, "--port", str(port)).begin() as demo:
            status = demo.wait()

    [line] = demo.log.splitlines()
    assert status == 1
    assert str(port) in line
    assert "in use" in line
    assert demo.left() == []


def test_a_daemon_that_dies_ends_it_with_one_line_and_leaves_nothing(demo: Demo) -> None:
    demo.page()
    [daemon] = [process.pid for process in demo.family() if process.parent == demo.pid]
    os.kill(daemon, signal.SIGKILL)
    status = demo.wait()
    demo.is_gone()

    assert status == 1
    assert len(demo.log.splitlines()) == 1
    assert demo.left() == []


def test_without_a_reader_it_ends_and_leaves_nothing(tmp_path: Path) -> None:
    read, write = os.pipe()
    demo = Demo(tmp_path, "--gpus", "2")
    with demo.start(wait=False, stdout=write):
        os.close(write)
        os.read(read, 1)
        demo.family()
        os.close(read)
        demo.wait()
        demo.is_gone()

    assert demo.log == ""
    assert demo.left() == []


@contextmanager
def on_a_terminal(demo: Demo) -> Iterator[tuple[int, str]]:
    """Starts the demo on a terminal of its own: our end of it, and what the demo has said when it is up."""
    ours, theirs = os.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with demo.start(wait=False, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **streams):
        os.close(theirs)
        text = ""
        while "Ctrl-C ends it." not in text:
            text += os.read(ours, 4096).decode()
        demo.family()
        yield ours, text


def test_on_a_terminal_ctrl_c_ends_it(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--gpus", "2")
    with on_a_terminal(demo) as (terminal, text):
        os.write(terminal, b"\x03")
        status = demo.wait()
        demo.is_gone()
    os.close(terminal)

    assert PAGE.search(text.replace("\r\n", "\n"))
    assert (status, demo.left()) == (0, [])


def test_a_terminal_that_closes_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--gpus", "2")
    with on_a_terminal(demo) as (terminal, _):
        os.close(terminal)
        demo.wait()
        demo.is_gone()

    assert demo.left() == []
