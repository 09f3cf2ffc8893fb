"""`rocmwatch simulate`, as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocmwatch.simulate import MARKER, SimulatedNode

COMMAND = (sys.executable, "-c", "from rocmwatch.commands.simulate import simulate; simulate()")


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_makes_a_node_says_how_to_use_it_and_moves_it_until_a_signal(tmp_path: Path, number: int) -> None:
    root = tmp_path / "a node"
    command = [*COMMAND, root, "--model", "mi300x-cpx", "--gpus", "2", "--interval", "50ms", "--seed", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        uptime = root / "proc/uptime"
        before = uptime.read_bytes()
        until = time.monotonic() + 20
        while uptime.read_bytes() == before and time.monotonic() < until:
            time.sleep(0.01)
        moved = uptime.read_bytes() != before
        process.send_signal(signal.SIGSTOP)  # Ctrl-Z and fg are no reason to end
        time.sleep(0.2)
        process.send_signal(signal.SIGCONT)
        stopped = uptime.read_bytes()
        while uptime.read_bytes() == stopped and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        went_on = uptime.read_bytes() != stopped
        process.send_signal(number)
        rest = process.stdout.read()

    assert (0, "", True, True) == (process.returncode, rest, moved, went_on)
    assert lines[0].startswith("A simulated node: 2 x AMD Instinct MI300X OAM in CPX and NPS1, Linux 6.12")
    assert f"  rocmwatch sample --root '{root}'\n" in lines
    assert {MARKER, "units.json", "sys", "proc"} == set(os.listdir(root))


def test_without_options_it_is_a_full_node_of_mi300x(tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, *_ = [process.stdout.readline() for _ in range(5)]
        process.terminate()

    assert process.returncode == 0
    assert first.startswith("A simulated node: 8 x AMD Instinct MI300X OAM")


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [("7.3", ", Linux 7.3.4.\n"), ("dkms", ", Linux 6.8.0-90-generic with ROCm's driver 6.14.14.\n")],
)
def test_it_says_what_drives_the_gpus(tmp_path: Path, kernel: str, expected: str) -> None:
    command = [*COMMAND, tmp_path, "--model", "mi210", "--gpus", "1", "--kernel", kernel]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.terminate()

    assert first.endswith(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model", "mi9999"], "'mi9999' is not one of"),
        (["--model", "apu", "--gpus", "2"], "Error: a node has 1 to 1 GPUs of model apu, not 2\n"),
        (
            ["--model", "mi300x", "--kernel", "6.1"],
            "Error: Linux 6.1 cannot drive model mi300x: choose one of 6.5, 6.8",
        ),
        (["--kernel", "2.6"], "'2.6' is not one of"),
        (["--gpus", "0"], "0 is not in the range"),
        (["--interval", "5"], "has no unit"),
        (["--interval", "1ms"], "too short"),
        (["--scenario", "chaos"], "Invalid value for '--scenario': 'chaos' is not"),
    ],
)
def test_a_wrong_option_is_a_usage_error(tmp_path: Path, arguments: list[str], expected: str) -> None:
    done = _run(tmp_path / "new", *arguments)

    assert (2, "") == (done.returncode, done.stdout)
    assert expected in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_not_ours_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    done = _run(tmp_path)

    expected = f"Error: {tmp_path} is not empty and not a simulated node: choose an empty folder\n"
    assert (2, "", expected) == (done.returncode, done.stdout, done.stderr)
    assert os.listdir(tmp_path) == ["mine"]


def test_a_folder_where_a_simulation_runs_is_refused(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi210", 1):
        done = _run(tmp_path)

    expected = f"Error: {tmp_path} is in use by a running simulation: stop that one first\n"
    assert (2, expected) == (done.returncode, done.stderr)


def test_a_folder_that_cannot_be_made_is_named_in_one_line() -> None:
    done = _run("/proc/simulated")

    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "/proc/simulated" in done.stderr
    assert done.stderr.count("\n") == 1
