"""The service as the checks get it: installed as by a package, and set up for each check. A pytest plugin.

It watches a simulated node (a folder, by ROCMWATCH_ROOT) unless a check says otherwise.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import machine
import pytest
from faultfs import FaultFS
from machine import UNIT, run, within

SOURCE = Path("/source/systemd")
INSTALLED = {
    "rocmwatch.service": "/usr/lib/systemd/system/rocmwatch.service",
    "rocmwatch.sysusers": "/usr/lib/sysusers.d/rocmwatch.conf",
    "rocmwatch.tmpfiles": "/usr/lib/tmpfiles.d/rocmwatch.conf",
    "rocmwatch.yaml": "/etc/rocmwatch/rocmwatch.yaml",
}
GPUS = 4
QUICK = "sampling: {interval: 500ms, sensors: 1s, deadline: 500ms}\n"
PATIENT = "sampling: {interval: 1s, sensors: 1s, deadline: 1s}\n"  # a mirror is slower than a folder


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    """What the scripts of a package do. Nothing else is worth trying when they fail."""
    for name, target in INSTALLED.items():
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCE / name, target)
    try:
        run("systemd-sysusers", "rocmwatch.conf")
        run("systemd-tmpfiles", "--create", "rocmwatch.conf")
        run("systemctl", "daemon-reload")
    except AssertionError as failure:
        pytest.exit(f"installing it failed: {failure}", returncode=1)


@pytest.fixture(scope="session")
def node() -> Path:
    """A simulated node whose values move."""
    root = Path("/run/simulated")
    command = ["rocmwatch", "simulate", str(root), "--gpus", str(GPUS)]
    run("systemd-run", "--quiet", "--unit=simulated-node", *command)
    within(20, "the simulated node", (root / "rocmwatch-simulated.json").exists)
    (root / "sys/kernel/debug").chmod(0o700)  # as the kernel mounts it
    return root


class Service:
    """The service, set up for one check."""

    def configure(self, text: str) -> None:
        machine.CONFIG.parent.mkdir(parents=True, exist_ok=True)
        machine.CONFIG.write_text(text)

    def drop_in(self, *lines: str) -> None:
        machine.DROP_INS.mkdir(parents=True, exist_ok=True)
        number = len(list(machine.DROP_INS.iterdir()))
        (machine.DROP_INS / f"{number}.conf").write_text("\n".join(["[Service]", *lines, ""]))
        run("systemctl", "daemon-reload")

    def watch(self, root: Path) -> None:
        """Let it read another root than the machine's."""
        self.drop_in(f"Environment=ROCMWATCH_ROOT={root}")

    def start(self) -> None:
        run("systemctl", "start", UNIT)

    def clean(self) -> None:
        """As freshly installed, and not running."""
        with suppress(AssertionError):
            run("systemctl", "stop", UNIT)
        machine.CONFIG.unlink(missing_ok=True)
        shutil.rmtree(machine.DROP_INS, ignore_errors=True)
        run("systemctl", "daemon-reload")
        with suppress(AssertionError):  # a unit that is not loaded has nothing to reset
            run("systemctl", "reset-failed", UNIT)


@pytest.fixture
def service() -> Iterator[Service]:
    """The service with quick ticks, not started and without a node."""
    service = Service()
    service.configure(QUICK)
    yield service
    service.clean()


@pytest.fixture
def running(service: Service, node: Path) -> Service:
    """The service, started on the simulated node."""
    service.watch(node)
    service.start()
    return service


@pytest.fixture
def faulty(service: Service, node: Path) -> Iterator[FaultFS]:
    """The simulated node seen through a file system that fails on request; the service is set up for it."""
    with FaultFS(node, "/run/faulty") as mirror:
        service.watch(mirror.root)
        service.configure(PATIENT)
        yield mirror
