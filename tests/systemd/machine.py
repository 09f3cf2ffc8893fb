"""The booted system, as the checks use it: systemctl's answers, the service's processes, and what it serves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

UNIT = "rocmwatch.service"
ADDRESS = "http://127.0.0.1:19300"
DROP_INS = Path("/run/systemd/system/rocmwatch.service.d")
CONFIG = Path("/etc/rocmwatch/conf.d/90-checks.yaml")
SAMPLE_LINE = re.compile(r"^rocmwatch_(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def run(*command: str, status: int = 0) -> str:
    """What a command prints, both streams together; it has to exit with `status`."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert status == done.returncode, f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


def within(seconds: float, what: str, condition: Callable[[], bool]) -> float:
    """Wait for `condition`; how long it took. An `OSError` in it (nobody listens, no such process) means not yet."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        with suppress(OSError):
            if condition():
                return time.monotonic() - started
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def timed(action: Callable[[], object]) -> float:
    """How many seconds an action takes."""
    started = time.monotonic()
    action()
    return time.monotonic() - started


def show(name: str) -> str:
    """A property of the service."""
    return run("systemctl", "show", "--value", "-p", name, UNIT).strip()


def main_pid() -> int:
    return int(show("MainPID"))


def journal(since: float, *options: str) -> list[str]:
    """What the service has written since a Unix time, systemd's own lines about it left out."""
    text = run("journalctl", "-q", "-o", "cat", f"--since=@{since:.6f}", "_SYSTEMD_UNIT=" + UNIT, *options)
    return text.splitlines()


# Processes -----------------------------------------------------------------------------------------------------------


def processes() -> dict[int, tuple[str, str]]:
    """Name and state of each process in the service's cgroup."""
    group = show("ControlGroup") or "/system.slice/" + UNIT
    roots = [Path("/sys/fs/cgroup", sub) for sub in ("systemd", "")]
    members = next((root / group[1:] / "cgroup.procs" for root in roots if (root / group[1:]).is_dir()), None)
    found = {}
    for pid in members.read_text().split() if members else []:
        with suppress(OSError):
            head, _, rest = Path("/proc", pid, "stat").read_text().rpartition(")")
            found[int(pid)] = (head.partition("(")[2], rest.split()[0])
    return found


def pids(name: str, *, stuck: bool = False) -> list[int]:
    """The service's processes of that name, those in state D or the others."""
    return [pid for pid, (comm, state) in processes().items() if comm == name and (state == "D") == stuck]


def capabilities(pid: int) -> dict[str, int]:
    """The five sets of a process (`CapPrm` ...), as bit masks."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line[:6]: int(line[8:], 16) for line in lines if line.startswith("Cap")}


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)


# What it serves ------------------------------------------------------------------------------------------------------


def get(path: str) -> tuple[int, str]:
    """Status and text of an answer."""
    try:
        with urllib.request.urlopen(ADDRESS + path, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(name: str) -> dict[str, float]:
    """The series of a metric, by their labels as text; empty when there is none.

    Raises:
        ConnectionError: When the service does not answer, or has nothing to tell yet.
    """
    status, text = get("/metrics")
    if status != 200:
        raise ConnectionError(text)
    return {labels: float(value) for found, labels, value in SAMPLE_LINE.findall(text) if found == name}


def metric(name: str) -> float:
    """The one series of a metric without labels."""
    return metrics(name)[""]


def gpus_in(state: str) -> set[str]:
    """The PCI addresses of the GPUs in a state."""
    series = metrics("gpu_state").items()
    return {
        address
        for labels, value in series
        if value == 1 and f'state="{state}"' in labels
        for address in re.findall(r'pci="([^"]+)"', labels)
    }


def age() -> float:
    """How many seconds ago the memory of the GPUs was read."""
    return metrics("sample_age_seconds")['source="memory"']


def fresh() -> bool:
    return age() < 2
