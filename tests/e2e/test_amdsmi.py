"""The daemon with `sampling.backend: amdsmi`, in a mount namespace where a simulated node's folder is /sys."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.running import Service, eventually, run
from needs import require
from rocm import Make, Rocm, built, children_of_role, rocm

from rocmwatch.simulate import SimulatedNode

__all__ = ["built", "rocm"]

QUICK = "sampling: {{backend: {}, interval: 1s, sensors: 1s, deadline: 1s}}"
NOT_USED = "amdsmi is not used, the driver's files are read instead: "
UNDER_ROOT = f"{NOT_USED}it knows the machine's own GPUs only, not those under a root"
AS_SYS = 'mount --make-rprivate / && mount --rbind "$0" /sys && exec "$@"'


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", 2) as node:
        yield node


@pytest.fixture
def installed(node: SimulatedNode, rocm: Make) -> Rocm:
    require("root")
    require("unshare")
    return rocm()  # it answers from /sys


@pytest.fixture
def service(node: SimulatedNode, tmp_path: Path, installed: Rocm) -> Iterator[Service]:
    """A daemon that takes the node for the machine."""
    made = Service(tmp_path, None, QUICK.format("amdsmi"))
    made.program = ["unshare", "-m", "sh", "-c", AS_SYS, f"{node.root}/sys", *made.program]
    with made:
        eventually(lambda: children_of_role(made.launcher, "rw-amdsmi"), "a reader that asks amdsmi")
        yield made


def test_amdsmi_is_asked_and_the_log_has_nothing_to_say(service: Service, installed: Rocm) -> None:
    installed.listen()
    service.next_tick(2)

    assert ("power_info", "0000:05:00.0") in installed.calls()
    assert "amdsmi" not in service.log
    assert {"active"} == set(service.states().values())


@pytest.mark.parametrize("action", ["hang", "abort", "garbage"])
def test_when_it_fails_the_service_goes_on_with_one_line(service: Service, installed: Rocm, action: str) -> None:
    service.next_tick()
    installed.tell(gpu_memory_usage=action)
    eventually(lambda: NOT_USED in service.log, "a line about it")
    service.next_tick(3)
    lines = [line for line in service.log.splitlines() if "amdsmi" in line]

    assert [True] == ["node.limited" in line and NOT_USED in line for line in lines]
    assert {"active"} == set(service.states().values())
    assert eventually(lambda: not children_of_role(service.launcher, "rw-amdsmi"), "the end of its reader")


def test_what_it_prints_reaches_neither_the_log_nor_anybody(service: Service, installed: Rocm) -> None:
    installed.tell(power_info="print")
    service.next_tick(3)

    assert "a line on" not in service.log


def test_a_reload_changes_the_backend(service: Service) -> None:
    service.configure(QUICK.format("sysfs"))
    service.send(signal.SIGHUP)
    eventually(lambda: not children_of_role(service.launcher, "rw-amdsmi"), "the end of its reader")
    service.configure(QUICK.format("amdsmi"))
    service.send(signal.SIGHUP)

    assert eventually(lambda: children_of_role(service.launcher, "rw-amdsmi"), "a new one")


def test_under_a_root_it_is_not_asked_and_that_is_one_line(node: SimulatedNode, tmp_path: Path) -> None:
    with Service(tmp_path, node.root, QUICK.format("amdsmi")) as service:
        service.next_tick(2)

        assert 1 == service.log.count(UNDER_ROOT)
        assert [] == children_of_role(service.launcher, "rw-amdsmi")


def test_nor_does_a_sample_ask_it_under_a_root(node: SimulatedNode) -> None:
    done = run("sample", "--backend", "amdsmi", "--root", node.root)
    assert (0, f"rocmwatch: {UNDER_ROOT}\n") == (done.status, done.err)
