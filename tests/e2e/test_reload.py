"""A running daemon takes a new configuration, or keeps the one that it has and says why."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from e2e.running import Service, eventually
from faultfs import FaultFS

from rocmwatch.simulate import SimulatedNode

SLOW = "sampling: {interval: 30s, sensors: 30s}"
QUICK = "sampling: {interval: 200ms, sensors: 1s, deadline: 200ms}"
BAD = "sampling: {interval: never}\nlog: {level: loud}"
SUCCESSFUL = "config_last_reload_successful"
OVER_HTTP = ", reload: true"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", 2) as node:
        yield node


@pytest.fixture
def service(node: SimulatedNode, tmp_path: Path) -> Iterator[Service]:
    """A daemon with few ticks that also reloads over HTTP."""
    service = Service(tmp_path, node.root)
    service.configure(SLOW, exporter=OVER_HTTP)
    with service:
        yield service


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A daemon for tests that need no fresh one."""
    folder = tmp_path_factory.mktemp("shared")
    with SimulatedNode(str(folder / "node"), "mi210", 1) as node:
        service = Service(folder, node.root)
        service.configure(SLOW, exporter=OVER_HTTP)
        with service:
            yield service


def reload_by_signal(service: Service) -> None:
    reloads = service.log.count("config.reloaded") + service.log.count("config.refused")
    service.send(signal.SIGHUP)
    eventually(lambda: service.log.count("config.reloaded") + service.log.count("config.refused") > reloads, "a reload")


def reload_over_http(service: Service) -> None:
    assert service.get("/-/reload", "POST")[0] in {200, 500}


RELOADS = pytest.mark.parametrize("reload", [reload_by_signal, reload_over_http])


@RELOADS
def test_a_good_one_changes_the_pace_without_a_pause_of_the_listener(service: Service, reload: object) -> None:
    assert callable(reload)
    before = service.ticks()
    service.configure(QUICK, exporter=OVER_HTTP)
    reload(service)
    service.next_tick(5)

    assert before == 1
    assert service.metric(SUCCESSFUL) == 1
    assert service.log.count("config.reloaded") == 1
    assert "config.needs_restart" not in service.log


@RELOADS
def test_a_bad_one_changes_nothing_but_a_metric_until_a_good_one_comes(service: Service, reload: object) -> None:
    assert callable(reload)
    service.configure(QUICK, exporter=OVER_HTTP)
    reload(service)
    loaded_at = service.document()["config"]["loaded_at"]
    service.configure(BAD, exporter=OVER_HTTP)
    reload(service)
    refused = service.metric(SUCCESSFUL), service.document()["config"]
    service.next_tick(5)  # still at the pace of the last good one
    still_refused = service.metric(SUCCESSFUL)
    log = service.log
    service.configure(QUICK, exporter=OVER_HTTP)
    reload(service)

    assert refused == (0, {"loaded_at": loaded_at, "last_reload_successful": False})
    assert still_refused == 0
    assert [log.count(f"{service.config}:{line}: ") for line in (1, 2, 3)] == [1, 1, 0]
    assert service.metric(SUCCESSFUL) == 1


def test_over_http_it_is_told_how_it_went(shared: Service) -> None:
    shared.configure(SLOW, exporter=OVER_HTTP)
    good = shared.get("/-/reload", "POST")[0]
    shared.configure(BAD, exporter=OVER_HTTP)
    bad = shared.get("/-/reload", "POST")[0]

    assert (good, bad) == (200, 500)
    assert shared.get("/-/reload")[0] == 405


def test_over_http_it_is_off_unless_enabled(node: SimulatedNode, tmp_path: Path) -> None:
    with Service(tmp_path, node.root, SLOW) as service:
        assert service.get("/-/reload", "POST")[0] == 403
        assert "config.reloaded" not in service.log


def test_the_log_level_changes_with_it(shared: Service) -> None:
    shared.configure(f"{QUICK}\nlog: {{level: error}}", exporter=OVER_HTTP)
    assert shared.get("/-/reload", "POST")[0] == 200
    quiet = shared.log
    assert shared.get("/-/reload", "POST")[0] == 200
    still_quiet = shared.log
    shared.configure(f"{QUICK}\nlog: {{level: debug}}", exporter=OVER_HTTP)
    assert shared.get("/-/reload", "POST")[0] == 200

    assert still_quiet == quiet
    assert shared.log.count("config.reloaded") == quiet.count("config.reloaded") + 1


def test_the_log_format_changes_with_it(shared: Service) -> None:
    shared.configure(f"{QUICK}\nlog: {{format: json}}", exporter=OVER_HTTP)
    shared.get("/-/reload", "POST")

    assert '"event": "config.reloaded"' in shared.log


def test_a_change_that_needs_a_restart_is_told_and_the_listener_stays(shared: Service) -> None:
    port = shared.port
    shared.config.write_text('exporter: {listen: "127.0.0.1:1", reload: false}\n')
    status = shared.get("/-/reload", "POST")[0]

    assert status == 200
    assert "config.needs_restart key=exporter.listen" in shared.log
    assert "config.needs_restart key=exporter.reload" in shared.log
    assert shared.port == port
    assert shared.is_ready()


def test_a_file_that_vanished_is_a_bad_one(shared: Service) -> None:
    shared.configure(SLOW, exporter=OVER_HTTP)
    text = shared.config.read_text()
    shared.config.unlink()
    status = shared.get("/-/reload", "POST")[0]
    refused = shared.metric(SUCCESSFUL)
    shared.config.write_text(text)

    assert status == 500
    assert refused == 0
    assert f"{shared.config}: no such file" in shared.log
    assert shared.get("/-/reload", "POST")[0] == 200
    assert shared.metric(SUCCESSFUL) == 1


def test_a_file_in_conf_d_overrides_and_its_problems_are_its_own(shared: Service) -> None:
    folder = shared.config.parent / "conf.d"
    folder.mkdir()
    (folder / "50-quick.yaml").write_text(QUICK)
    assert shared.get("/-/reload", "POST")[0] == 200
    shared.next_tick(5)
    (folder / "60-worse.yaml").write_text("sampling:\n  interval: 1us\n")
    status = shared.get("/-/reload", "POST")[0]
    shutil.rmtree(folder)

    assert status == 500
    assert f"{folder / '60-worse.yaml'}:2: " in shared.log


def test_reloads_at_the_same_time_are_done_one_after_the_other(service: Service) -> None:
    service.configure(QUICK, exporter=OVER_HTTP)

    def ask(number: int) -> int:
        service.send(signal.SIGHUP)
        service.configure(BAD if number % 2 else QUICK, exporter=OVER_HTTP)
        return service.get("/-/reload", "POST")[0]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(100)))
    service.configure(QUICK, exporter=OVER_HTTP)
    eventually(lambda: service.get("/-/reload", "POST")[0] == 200, "a good one")
    service.next_tick(3)

    assert set(answers) <= {200, 500, 503}
    assert service.metric(SUCCESSFUL) == 1
    assert "Traceback" not in service.log
    assert service.end() == 0


def test_reloads_without_end_starve_neither_ticks_nor_signs_of_life(node: SimulatedNode, tmp_path: Path) -> None:
    service = Service(tmp_path, node.root)
    service.configure("sampling: {interval: 500ms, sensors: 1s}", exporter=OVER_HTTP)
    with service:
        before, end = service.ticks(), time.monotonic() + 2.5
        while time.monotonic() < end:
            assert service.get("/-/reload", "POST")[0] == 200
            time.sleep(0.1)

        assert service.ticks() >= before + 3


@pytest.mark.fuse
def test_it_does_not_wait_for_a_tick_that_hangs(node: SimulatedNode, tmp_path: Path) -> None:
    with FaultFS(node.root, tmp_path / "mirror") as mirror:
        service = Service(tmp_path, mirror.root)
        slow = "sampling: {interval: 3s, sensors: 3s, deadline: 3s}"
        service.configure(slow, exporter=OVER_HTTP)
        with service:
            mirror.set({"*/mem_info_vram_used": "hang"})
            service.configure(BAD, exporter=OVER_HTTP)
            end = time.monotonic() + 4  # within this time a tick began to hang
            slowest = 0.0
            while time.monotonic() < end:
                began = time.monotonic()
                assert service.get("/-/reload", "POST")[0] == 500
                assert service.metric(SUCCESSFUL) == 0
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.1)
            mirror.release()

            assert slowest < 2.0
