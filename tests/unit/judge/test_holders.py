"""Every kind of holder, and what keeps a process from being of a kind that something is done about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocmwatch.judge.holders import World, held, holders, suspects
from rocmwatch.model import GpuProcess, Held, Holder, UnitState, Use, frozen

GIB = 1 << 30
GPU, OTHER = "0000:05:00.0", "0000:27:00.0"
UNIT = "vllm@0.service"
CGROUP = f"/system.slice/system-vllm.slice/{UNIT}"
TMUX = "/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope"
SESSION = "/user.slice/user-1000.slice/session-3.scope"
NEW, OLD = "a" * 32, "b" * 32
CONTAINER = "0123456789abcdef" * 4

ENGINE = GpuProcess(
    pid=200,
    start_time=100_000,  # 1000 s after boot
    comm="VLLM::EngineCor",
    state="S",
    parent=1,
    group=150,
    session=150,
    group_is_led=False,
    uid=1000,
    namespaces=1,
    cgroup=CGROUP,
    invocation=OLD,
    has_kfd_entry=True,
    has_queues=True,
    kfd_open=True,
    drm_open=True,
    listening=False,
    uses=(Use(pci=GPU, kfd_bytes=150 * GIB),),
)
DEAD = UnitState(name=UNIT, active_state="inactive", sub_state="dead", main_exited_at=1500.0)
RUNNING = UnitState(name=UNIT, active_state="active", sub_state="running", invocation=NEW, main_pid=9)
WORLD = World(
    now_seconds=5000.0,
    units=frozen({UNIT: DEAD}),
    idle_seconds=frozen({(GPU, None): 90.0, (OTHER, None): 90.0}),
)


def world(unit: UnitState | None = DEAD, **changes: object) -> World:
    units = frozen({UNIT: unit}) if unit else frozen({})
    return replace(WORLD, units=units, **changes)  # type: ignore[arg-type]


def of(process: GpuProcess, its: World = WORLD) -> Holder:
    """The one holder that a process is."""
    (holder,) = holders([process], its)
    return holder


def judged(process: GpuProcess, its: World = WORLD) -> tuple[str, str]:
    """(class, action)"""
    holder = of(process, its)
    return holder.holder_class.value, holder.action.value


class TestOrphans:
    def test_what_outlived_its_service_is_an_orphan(self) -> None:
        holder = of(ENGINE)

        assert ("orphan", "terminate") == (holder.holder_class.value, holder.action.value)
        assert ("unit", UNIT) == (holder.owner.kind.value, holder.owner.name)
        assert (Held(pci=GPU, partition=None, bytes=150 * GIB),) == holder.held
        assert 4000.0 == holder.age_seconds
        reason = f"{UNIT} is inactive, and this outlived it; nobody of it listens, and its GPU was idle for 90 s"
        assert reason == holder.reason

    @pytest.mark.parametrize(
        ("unit", "word"),
        [
            (replace(DEAD, active_state="failed"), "is failed, and this outlived it"),
            (replace(DEAD, load_state="not-found"), "does not exist any more"),
            (RUNNING, "was started anew, and this is of an earlier start"),
            (
                UnitState(name=UNIT, active_state="activating", sub_state="auto-restart", invocation=OLD),
                "waits to be restarted, and this outlived its last start",
            ),
            (
                UnitState(name=UNIT, active_state="activating", sub_state="start", invocation=NEW, main_pid=9),
                "was started anew, and this is of an earlier start",
            ),
        ],
    )
    def test_a_service_leaves_orphans_in_many_ways(self, unit: UnitState, word: str) -> None:
        holder = of(ENGINE, world(unit))

        assert "orphan" == holder.holder_class.value
        assert f"{UNIT} {word}" in holder.reason

    @pytest.mark.parametrize("cgroup", [TMUX, SESSION, "/system.slice/run-r1.scope"])
    def test_what_outlived_the_program_that_started_it_in_a_terminal_is_one(self, cgroup: str) -> None:
        holder = of(replace(ENGINE, cgroup=cgroup))

        assert ("orphan", "session") == (holder.holder_class.value, holder.owner.kind.value)
        assert "the program that started it (150) is gone" in holder.reason

    @pytest.mark.parametrize(
        ("changes", "doubt"),
        [
            ({"listening": None}, "nobody has looked yet whether it listens"),
            ({"listening": True}, "it, or another process of it, serves at a port"),
            ({"kfd_open": False, "drm_open": False, "has_kfd_entry": False}, "it has no GPU open"),
            ({"start_time": 500_000 - 12_000}, "it is not older than 120 s"),
            ({"start_time": 600_000}, "it is not older than 120 s"),
            ({"namespaces": None}, "it is not known to be a process of this host"),
            ({"uses": (Use(pci="0000:99:00.0", kfd_bytes=1),)}, "it is not known whether its GPU is busy"),
            ({"may_look": False}, "its open files may not be looked at"),
            ({"start_time": None}, "who it is cannot be told"),
        ],
    )
    def test_one_missing_piece_of_evidence_is_one_too_many(self, changes: dict[str, object], doubt: str) -> None:
        holder = of(replace(ENGINE, **changes))  # type: ignore[arg-type]

        assert ("foreign", "none") == (holder.holder_class.value, holder.action.value)
        assert doubt in holder.reason

    def test_a_gpu_that_was_busy_a_moment_ago_makes_it_a_live_one(self) -> None:
        holder = of(ENGINE, world(idle_seconds=frozen({(GPU, None): 59.0})))

        assert "foreign" == holder.holder_class.value
        assert "its GPU was busy within 60 s" in holder.reason

    def test_one_of_its_gpus_is_enough_for_that(self) -> None:
        both = replace(ENGINE, uses=(*ENGINE.uses, Use(pci=OTHER, kfd_bytes=1)))

        assert ("foreign", "none") == judged(both, world(idle_seconds=frozen({(GPU, None): 90.0, (OTHER, None): 1.0})))

    @pytest.mark.parametrize("units", [None, frozen({})])
    def test_a_service_that_nothing_is_known_of_has_no_orphans(self, units: object) -> None:
        holder = of(ENGINE, replace(WORLD, units=units))  # type: ignore[arg-type]

        assert ("foreign", f"what systemd says of {UNIT} is not known") == (holder.holder_class.value, holder.reason)

    @pytest.mark.parametrize("led", [True, None])
    def test_a_job_whose_starter_may_be_there_is_a_persons(self, led: bool | None) -> None:
        assert ("foreign", "none") == judged(replace(ENGINE, cgroup=SESSION, group_is_led=led))

    def test_whoever_would_be_one_but_for_its_sockets_is_suspect(self) -> None:
        unknown = replace(ENGINE, listening=None)

        assert {200} == suspects([unknown], WORLD)
        assert set() == suspects([unknown], world(RUNNING, idle_seconds=frozen({})))
        assert set() == suspects([replace(unknown, invocation=NEW)], world(RUNNING))
        assert set() == suspects([replace(unknown, start_time=None)], WORLD)


class TestOwned:
    @pytest.mark.parametrize(
        ("state", "sub"), [("active", "running"), ("reloading", "reload"), ("activating", "start-post")]
    )
    def test_a_process_of_the_present_start_is_owned(self, state: str, sub: str) -> None:
        unit = UnitState(name=UNIT, active_state=state, sub_state=sub, invocation=OLD, main_pid=9)

        assert ("owned", "none") == judged(ENGINE, world(unit))

    def test_one_that_is_being_stopped_is_owned(self) -> None:
        unit = UnitState(name=UNIT, active_state="deactivating", sub_state="stop-sigterm", invocation=OLD)

        assert ("owned", "none") == judged(ENGINE, world(unit))

    def test_without_its_number_the_last_end_of_a_main_process_tells(self) -> None:
        """setproctitle writes over the environment, as vLLM does."""
        nameless = replace(ENGINE, invocation=None)

        assert ("owned", "none") == judged(nameless, world(replace(RUNNING, main_exited_at=999.0)))
        assert ("orphan", "terminate") == judged(nameless, world(replace(RUNNING, main_exited_at=1001.0)))

    def test_a_service_whose_main_process_is_meant_to_end_owns_the_others(self) -> None:
        unit = UnitState(name=UNIT, active_state="active", sub_state="exited", invocation=NEW, main_exited_at=1001.0)

        assert ("owned", "none") == judged(replace(ENGINE, invocation=None), world(unit))

    def test_the_container_of_a_managed_unit_is_owned(self) -> None:
        process = replace(ENGINE, cgroup=f"/system.slice/docker-{CONTAINER}.scope", namespaces=2)

        assert ("owned", "none") == judged(process, world(containers=frozen({CONTAINER: UNIT})))
        assert ("contained", "alert") == judged(process)

    def test_an_unnamed_namespace_is_a_container(self) -> None:
        holder = of(replace(ENGINE, cgroup="/", namespaces=3))

        assert ("contained", "in another pid namespace, which no managed unit names") == (
            holder.holder_class.value,
            holder.reason,
        )


class TestTheDead:
    def test_threads_that_outlive_their_leader_hold_the_memory(self) -> None:
        process = replace(ENGINE, state="Z", live_threads=3)

        assert ("zombie_leader", "terminate") == judged(process)
        assert ("owned", "none") == judged(process, world(replace(RUNNING, invocation=OLD)))
        assert ("foreign", "none") == judged(process, replace(WORLD, units=None))
        assert ("foreign", "none") == judged(replace(process, live_threads=None))
        assert ("foreign", "none") == judged(replace(process, kfd_open=False, drm_open=False))

    def test_a_zombie_waits_for_its_parent(self) -> None:
        holder = of(replace(ENGINE, state="Z", live_threads=0, kfd_open=False, drm_open=False, parent=77))

        assert ("zombie", "reap_parent") == (holder.holder_class.value, holder.action.value)
        assert "its parent, 77," in holder.reason

    def test_one_that_a_kill_cannot_reach_needs_a_reboot(self) -> None:
        killed = replace(ENGINE, state="D", kill_pending_seconds=0.0, stuck_thread=True)

        assert ("stuck", "reboot") == judged(killed)
        assert ("stuck", "reboot") == judged(replace(killed, state="R", stuck_thread=False, kill_pending_seconds=30.0))
        assert ("orphan", "terminate") == judged(replace(killed, stuck_thread=False, kill_pending_seconds=29.0))

    def test_an_entry_without_a_process_is_a_ghost(self) -> None:
        gone = GpuProcess(pid=200, exists=False, has_kfd_entry=True, uses=ENGINE.uses)

        assert ("ghost", "alert") == judged(gone)
        assert ("ghost", "none") == judged(replace(gone, uses=(Use(pci=GPU, kfd_bytes=0),)))

    def test_a_number_that_another_process_got_is_a_ghost_and_never_that_process(self) -> None:
        holder = of(replace(ENGINE, comm="sshd", kfd_open=False, drm_open=False))

        assert ("ghost", "alert") == (holder.holder_class.value, holder.action.value)
        assert "the number was reused" in holder.reason


class TestTheRest:
    def test_an_entry_without_memory_is_a_monitor(self) -> None:
        process = replace(ENGINE, comm="rdcd", uses=(Use(pci=GPU, kfd_bytes=0),))

        assert ("monitor", "none") == judged(process, replace(WORLD, units=None))

    def test_a_client_without_memory_is_no_holder(self) -> None:
        process = replace(ENGINE, has_kfd_entry=False, uses=(Use(pci=GPU, fdinfo_bytes=0),))

        assert () == holders([process], world(RUNNING))

    def test_a_job_of_a_person_is_listed(self) -> None:
        holder = of(replace(ENGINE, cgroup=SESSION, group_is_led=True))

        assert ("foreign", "a job of a person: whoever started it is there") == (
            holder.holder_class.value,
            holder.reason,
        )

    def test_most_memory_comes_first(self) -> None:
        small = replace(ENGINE, pid=1, uses=(Use(pci=GPU, kfd_bytes=1),))

        assert [200, 1] == [holder.process.pid for holder in holders([small, ENGINE], WORLD)]


class TestHeld:
    def test_the_driver_counts_before_what_is_mapped(self) -> None:
        process = replace(ENGINE, uses=(Use(pci=GPU, kfd_bytes=7, fdinfo_bytes=9),))

        assert (Held(pci=GPU, partition=None, bytes=7),) == held(process)

    def test_without_the_drivers_count_what_is_mapped_tells(self) -> None:
        process = replace(ENGINE, uses=(Use(pci=GPU, fdinfo_bytes=9), Use(pci=OTHER, kfd_bytes=0, fdinfo_bytes=5)))

        assert [(GPU, 9), (OTHER, 5)] == [(one.pci, one.bytes) for one in held(process)]

    def test_memory_of_peers_is_theirs(self) -> None:
        """A worker of eight maps what the other seven allocated, and is counted 0 there by the compute driver."""
        process = replace(
            ENGINE, uses=(Use(pci=GPU, kfd_bytes=7, fdinfo_bytes=7), Use(pci=OTHER, kfd_bytes=0, fdinfo_bytes=7))
        )

        assert (Held(pci=GPU, partition=None, bytes=7),) == held(process)
