"""What only a real systemd can show of rocmwatch.service. Runs inside the booted system, as root: see `run`."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import time
from pathlib import Path

import machine
from faultfs import FaultFS
from installation import GPUS, INSTALLED, QUICK, SOURCE, Service
from machine import UNIT, gpus_in, main_pid, metric, metrics, pids, processes, run, show, timed, within

SAMPLING_CAPABILITIES = 1 << 2 | 1 << 19  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE
RECOVERS_SECONDS = 15
STOPS_SECONDS = 3


def hang(*addresses: str) -> dict[str, str]:
    """The rules by which reading the memory of these GPUs hangs."""
    return {f"*/{address}/mem_info_vram_used": "hang" for address in addresses}


def notes() -> list[str]:
    """What the service says that it cannot do."""
    _, text = machine.get("/api/v1/status")
    found: list[str] = json.loads(text)["notes"]
    return found


def all_gpus() -> list[str]:
    """The PCI addresses of the GPUs, all of them active."""
    addresses = sorted(gpus_in("active"))
    assert len(addresses) == GPUS
    return addresses


# The unit itself -----------------------------------------------------------------------------------------------------


def test_systemd_finds_nothing_wrong_in_the_unit() -> None:
    assert run("systemd-analyze", "verify", INSTALLED["rocmwatch.service"]) == ""


def test_the_exposure_score_is_at_most_2() -> None:
    print(run("systemd-analyze", "security", "--no-pager", "--threshold=20", UNIT).splitlines()[-1])


def test_installing_makes_a_user_without_a_shell_and_the_folders() -> None:
    user = run("getent", "passwd", "rocmwatch").strip().split(":")
    folders = ["/etc/rocmwatch", "/etc/rocmwatch/conf.d", "/run/rocmwatch"]

    assert user[5:] == ["/var/lib/rocmwatch", "/usr/sbin/nologin"]
    assert [Path(folder).owner() for folder in folders] == ["root", "root", "rocmwatch"]
    assert [stat.S_IMODE(os.stat(folder).st_mode) for folder in folders] == [0o755] * 3


def test_enabling_starts_it_at_boot() -> None:
    run("systemctl", "enable", UNIT)
    enabled = run("systemctl", "is-enabled", UNIT)
    wanted = run("systemctl", "show", "--value", "-p", "Wants", "multi-user.target").split()
    run("systemctl", "disable", UNIT)

    assert enabled == "enabled\n"
    assert UNIT in wanted


# Starting ------------------------------------------------------------------------------------------------------------


def test_start_returns_with_the_first_reading_published(running: Service) -> None:
    ready, _ = machine.get("/-/ready")

    assert ready == 200
    assert metric("gpus") == GPUS
    assert len(metrics("gpu_vram_used_bytes")) == GPUS
    assert show("ActiveState") == "active"


def test_the_shipped_configuration_is_fine_with_the_units_watchdog(service: Service, node: Path) -> None:
    machine.CONFIG.unlink()
    service.watch(node)
    service.start()

    assert machine.get("/-/ready")[0] == 200
    assert metric("gpus") == GPUS


def test_start_waits_for_a_first_reading_that_takes_long(service: Service, faulty: FaultFS) -> None:
    service.configure("sampling: {interval: 2s, deadline: 2s}\n")
    faulty.set({"*/mem_info_vram_used": "slow:0.4"})
    took = timed(service.start)
    ready, _ = machine.get("/-/ready")

    assert took >= GPUS * 0.4
    assert ready == 200
    assert len(metrics("gpu_vram_used_bytes")) == GPUS


def test_the_status_text_tells_the_gpus_and_the_age_of_the_last_tick(running: Service) -> None:
    text = show("StatusText")

    assert f"{GPUS} GPUs" in text
    assert re.search(r"\b\d+(\.\d+)? ?s\b", text), text


def test_a_bad_configuration_exits_with_78_and_is_not_tried_again(service: Service, node: Path) -> None:
    service.watch(node)
    service.configure("sampling:\n  intervall: 5s\n")
    began = time.time()
    run("systemctl", "start", UNIT, status=1)
    time.sleep(3)  # longer than RestartSec

    assert show("ActiveState") == "failed"
    assert show("ExecMainStatus") == "78"
    assert show("NRestarts") == "0"
    assert any(f"{machine.CONFIG}:2" in line and "intervall" in line for line in machine.journal(began))


def test_without_an_amd_gpu_it_runs_and_says_so(service: Service) -> None:
    service.start()
    ready, _ = machine.get("/-/ready")

    assert ready == 200
    assert metric("gpus") == 0
    assert show("ActiveState") == "active"


# Reloading -----------------------------------------------------------------------------------------------------------


def test_a_reload_takes_the_new_configuration(service: Service, node: Path) -> None:
    service.watch(node)
    service.configure("sampling: {interval: 10s, sensors: 10s}\n")
    service.start()
    main = main_pid()
    time.sleep(3)
    slow = machine.age()
    service.configure(QUICK)
    run("systemctl", "reload", UNIT)
    within(3, "a tick", lambda: machine.age() < 1)
    time.sleep(2)

    assert slow > 2
    assert machine.age() < 1
    assert metric("config_last_reload_successful") == 1
    assert (show("ActiveState"), main_pid()) == ("active", main)


def test_a_bad_reload_keeps_the_last_good_configuration(running: Service) -> None:
    main, began = main_pid(), time.time()
    running.configure("sampling: {interval: never}\n")
    run("systemctl", "reload", UNIT)
    within(5, "the metric that tells it", lambda: metric("config_last_reload_successful") == 0)
    refusal = machine.journal(began)
    running.configure(QUICK)
    run("systemctl", "reload", UNIT)
    within(5, "the metric that takes it back", lambda: metric("config_last_reload_successful") == 1)

    assert any(f"{machine.CONFIG}:1" in line for line in refusal)
    assert (show("ActiveState"), main_pid()) == ("active", main)
    assert machine.fresh()


# Stopping ----------------------------------------------------------------------------------------------------------


def test_a_stop_leaves_no_process_and_a_restart_finds_none(running: Service) -> None:
    began = time.time()
    run("systemctl", "restart", UNIT)
    run("systemctl", "stop", UNIT)
    text = run("journalctl", "-q", "-u", UNIT, f"--since=@{began:.6f}")

    assert processes() == {}
    assert "remains running" not in text
    assert "left-over process" not in text
    assert show("Result") == "success"


# Surviving -----------------------------------------------------------------------------------------------------------


def test_a_killed_reader_is_replaced(running: Service) -> None:
    main, [launcher], [reader] = main_pid(), pids("rw-launcher"), pids("rw-sensors")
    before = metric("reader_restarts_total")
    machine.kill(reader)
    within(RECOVERS_SECONDS, "another reader", lambda: metric("reader_restarts_total") == before + 1)
    within(RECOVERS_SECONDS, "fresh numbers", machine.fresh)

    assert pids("rw-sensors") != [reader]
    assert len(gpus_in("active")) == GPUS
    assert (main_pid(), pids("rw-launcher")) == (main, [launcher])


def test_a_killed_launcher_makes_the_service_start_anew(running: Service) -> None:
    main, [launcher], [reader] = main_pid(), pids("rw-launcher"), pids("rw-sensors")
    machine.kill(launcher)
    within(RECOVERS_SECONDS, "another main process", lambda: main_pid() not in {0, main})
    within(RECOVERS_SECONDS, "fresh numbers", machine.fresh)

    assert len(gpus_in("active")) == GPUS
    assert {main, launcher, reader}.isdisjoint(processes())


def test_a_killed_main_is_started_anew_and_leaves_nobody_behind(running: Service) -> None:
    main, [launcher], [reader] = main_pid(), pids("rw-launcher"), pids("rw-sensors")
    machine.kill(main)
    within(RECOVERS_SECONDS, "another main process", lambda: main_pid() not in {0, main})
    within(RECOVERS_SECONDS, "fresh numbers", machine.fresh)

    assert len(gpus_in("active")) == GPUS
    assert {main, launcher, reader}.isdisjoint(processes())


def test_a_main_that_stands_still_is_ended_by_the_watchdog(service: Service, node: Path) -> None:
    service.watch(node)
    service.drop_in("WatchdogSec=3s")
    service.start()
    main, began = main_pid(), time.time()
    machine.kill(main, signal.SIGSTOP)
    within(RECOVERS_SECONDS, "another main process", lambda: main_pid() not in {0, main})
    within(RECOVERS_SECONDS, "fresh numbers", machine.fresh)

    assert "Watchdog timeout" in run("journalctl", "-q", "-u", UNIT, f"--since=@{began:.6f}")
    assert any("thread 0x" in line.lower() for line in machine.journal(began)), "no stack in the journal"
    assert main not in processes()


def test_the_watchdog_lets_a_healthy_service_live(service: Service, node: Path) -> None:
    service.watch(node)
    service.drop_in("WatchdogSec=2s")
    service.start()
    main = main_pid()
    time.sleep(5)

    assert (show("ActiveState"), show("NRestarts"), main_pid()) == ("active", "0", main)


# Reads that hang -----------------------------------------------------------------------------------------------------


def test_a_hanging_gpu_is_stalled_and_the_others_go_on(service: Service, faulty: FaultFS) -> None:
    service.start()
    main, (victim, *others) = main_pid(), all_gpus()
    faulty.set(hang(victim))
    within(10, f"{victim} stalled", lambda: gpus_in("stalled") == {victim})
    within(10, "its reader in state D", lambda: len(pids("rw-sensors", stuck=True)) == 1)
    time.sleep(2)

    assert machine.fresh()
    assert gpus_in("active") == set(others)
    assert metric("readers_abandoned") == 1
    assert not any(victim in labels for labels in metrics("gpu_vram_used_bytes"))
    assert (show("ActiveState"), main_pid()) == ("active", main)


def test_restart_and_stop_are_quick_while_readers_hang(service: Service, faulty: FaultFS) -> None:
    service.start()
    victims = all_gpus()[:2]
    faulty.set(hang(*victims))
    within(10, "two readers in state D", lambda: len(pids("rw-sensors", stuck=True)) == 2)
    service.configure(QUICK)
    restart = timed(lambda: run("systemctl", "restart", UNIT))
    within(10, "stalled again", lambda: gpus_in("stalled") >= set(victims))
    within(10, "two more", lambda: len(pids("rw-sensors", stuck=True)) >= 4)
    time.sleep(1)  # a tick later it still knows of the earlier ones
    stuck, abandoned = len(pids("rw-sensors", stuck=True)), metric("readers_abandoned")
    stop = timed(lambda: run("systemctl", "stop", UNIT))
    print(f"restart {restart:.2f} s, stop {stop:.2f} s")

    assert restart <= STOPS_SECONDS
    assert stop <= STOPS_SECONDS
    assert (show("ActiveState"), show("Result")) == ("inactive", "success")
    assert stuck == abandoned, "readers of the earlier start are not counted"
    assert {name for name, _ in processes().values()} == {"rw-sensors"}


def test_readers_that_hung_are_gone_when_the_driver_answers(service: Service, faulty: FaultFS) -> None:
    service.start()
    faulty.set(hang(all_gpus()[0]))
    within(10, "a reader in state D", lambda: len(pids("rw-sensors", stuck=True)) == 1)
    faulty.release()

    within(5, "nobody in state D", lambda: pids("rw-sensors", stuck=True) == [])
    within(5, "the count of given-up readers", lambda: metric("readers_abandoned") == 0)


# Rights --------------------------------------------------------------------------------------------------------------


def test_main_has_no_capability_and_its_helpers_exactly_two(running: Service) -> None:
    main = machine.capabilities(main_pid())
    helpers = [machine.capabilities(pid) for pid in pids("rw-launcher") + pids("rw-sensors")]

    assert [main[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")] == [0, 0, 0, 0]
    assert main["CapBnd"] & ~SAMPLING_CAPABILITIES == 0
    assert [[of[name] for name in ("CapPrm", "CapEff", "CapBnd")] for of in helpers] == [
        [SAMPLING_CAPABILITIES] * 3,
        [SAMPLING_CAPABILITIES] * 3,
    ]


def test_debugfs_of_root_is_read_by_a_capability_and_not_otherwise(service: Service, node: Path) -> None:
    folder = str(node / "sys/kernel/debug")
    bare = ("setpriv", "--reuid=rocmwatch", "--regid=rocmwatch", "--clear-groups", "--inh-caps=-all")
    refusal = run(*bare, "ls", folder, status=2)
    service.watch(node)
    service.start()
    with_capability = metrics("gpu_vram_allocatable_bytes")
    run("systemctl", "stop", UNIT)
    service.drop_in(
        "AmbientCapabilities=", "AmbientCapabilities=CAP_SYS_PTRACE",
        "CapabilityBoundingSet=", "CapabilityBoundingSet=CAP_SYS_PTRACE",
    )  # fmt: skip
    service.start()

    assert "Permission denied" in refusal
    assert len(with_capability) == GPUS
    assert metrics("gpu_vram_allocatable_bytes") == {}
    assert len(metrics("gpu_vram_used_bytes")) == GPUS


def test_every_process_can_be_looked_at_and_the_kernel_is_heard(service: Service) -> None:
    """On the machine's own /proc: what it may not do, it says as a note."""
    limits = ("/proc: no permission", "netlink:", "systemctl show:")
    service.start()
    unlimited = [note for note in notes() if note.startswith(limits)]
    run("systemctl", "stop", UNIT)
    service.drop_in(
        "AmbientCapabilities=", "AmbientCapabilities=CAP_SYS_PTRACE",
        "CapabilityBoundingSet=", "CapabilityBoundingSet=CAP_SYS_PTRACE",
        "RestrictAddressFamilies=", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
    )  # fmt: skip
    service.start()

    assert unlimited == []
    assert [note.partition(":")[0] for note in notes() if note.startswith(limits)] == ["netlink", "/proc"]


def test_it_starts_with_the_drop_in_for_amdsmi_and_says_what_is_missing(service: Service, node: Path) -> None:
    run("systemd-sysusers", "--inline", "g render -", "g video -")  # udev's and ROCm's packages make them
    lines = (SOURCE / "rocmwatch.service.d/amdsmi.conf").read_text().splitlines()
    service.drop_in(*(line for line in lines if "=" in line and not line.startswith("#")))
    service.watch(node)
    service.configure("sampling: {backend: amdsmi, interval: 500ms, sensors: 1s, deadline: 500ms}\n")
    service.start()

    assert show("ActiveState") == "active"
    assert any("amdsmi" in line for line in notes())


def test_no_gpu_device_is_in_its_dev(running: Service) -> None:
    Path("/dev/dri").mkdir(exist_ok=True)
    for path, device in (("/dev/kfd", os.makedev(1, 3)), ("/dev/dri/renderD128", os.makedev(226, 128))):
        if not os.path.exists(path):
            os.mknod(path, 0o666 | stat.S_IFCHR, device)
    run("systemctl", "restart", UNIT)
    seen = os.listdir(f"/proc/{main_pid()}/root/dev")

    assert "null" in seen
    assert {"kfd", "dri"}.isdisjoint(seen)


def test_its_folder_in_run_outlives_a_restart(running: Service) -> None:
    before = os.stat("/run/rocmwatch").st_ino
    run("systemctl", "restart", UNIT)
    after_restart = os.stat("/run/rocmwatch").st_ino
    run("systemctl", "stop", UNIT)

    assert (after_restart, os.stat("/run/rocmwatch").st_ino) == (before, before)


# Quiet ---------------------------------------------------------------------------------------------------------------


def test_a_tick_and_a_scrape_write_no_line_to_the_journal(service: Service, node: Path) -> None:
    service.configure("sampling: {interval: 200ms, sensors: 1s, deadline: 200ms}\n")
    service.watch(node)
    service.start()
    time.sleep(1)
    began = time.time()
    for _ in range(6):
        machine.get("/metrics")
        time.sleep(0.5)

    assert machine.fresh()
    assert machine.journal(began) == []
