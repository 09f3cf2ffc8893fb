"""What each process that has a GPU's memory is to us, and why: pure, one rule after the other.

A process is of a class that something is done about only when every piece of evidence is there. Where one is missing,
or says otherwise, it is `foreign`, and the reason says what kept it from being more (design section 6 has the table).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rocmwatch.judge.owners import owner_of
from rocmwatch.model import (
    Action,
    GpuProcess,
    Held,
    Holder,
    HolderClass,
    Owner,
    OwnerKind,
    UnitState,
    Use,
    frozen,
)

YOUNG_SECONDS = 120.0  # an engine that starts holds memory before it serves
IDLE_SECONDS = 60.0
STUCK_SECONDS = 30.0  # alive so long after a SIGKILL: it will not end
_RUNNING = frozenset({"active", "reloading"})
_CHANGING = frozenset({"activating", "deactivating", "maintenance", "refreshing"})
_WAITS_FOR_RESTART = "auto-restart"

Place = tuple[str, "str | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is known beside the processes.

    Attributes:
        now_seconds: Of the boot's clock, which start times count by.
        ticks_per_second: Their unit.
        units: The states of the units; `None` when nothing is known of any.
        containers: Whole id of each container that a managed unit names -> that unit.
        idle_seconds: For how long each place has been less busy than 2 %; a place of which it is not known is missing.
    """

    now_seconds: float
    ticks_per_second: int = 100
    units: Mapping[str, UnitState] | None = None
    containers: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    idle_seconds: Mapping[Place, float] = field(default_factory=lambda: frozen({}))


class _Verdict(NamedTuple):
    holder_class: HolderClass
    action: Action
    reason: str


class _Case(NamedTuple):
    """One process, and what the rules want to know of it again and again."""

    process: GpuProcess
    owner: Owner
    held: tuple[Held, ...]
    age_seconds: float | None
    world: World

    @property
    def bytes(self) -> int:
        return sum(held.bytes for held in self.held)


_Rule = Callable[[_Case], "_Verdict | None"]


def holders(processes: Iterable[GpuProcess], world: World) -> tuple[Holder, ...]:
    """The holders among the processes, most memory first; who has nothing and stands in no books is none."""
    found = [holder for process in processes if (holder := _holder(process, world)) is not None]
    return tuple(sorted(found, key=lambda holder: (-holder.held_bytes, holder.process.pid)))


def suspects(processes: Iterable[GpuProcess], world: World) -> frozenset[int]:
    """Those that would be orphans if nobody of theirs listens: it has to be looked at, and that costs more."""
    return frozenset(process.pid for process in processes if _is_suspect(_case(process, world)))


def held(process: GpuProcess) -> tuple[Held, ...]:
    """The VRAM that a process holds, place by place.

    The compute driver's count is right wherever it is above 0. Where it is 0, what is mapped through DRM counts,
    unless the process has compute memory elsewhere: then it has its peers' memory mapped, which they hold.
    """
    computes = any(use.kfd_bytes for use in process.uses)
    found = ((use, _held_bytes(use, computes=computes)) for use in process.uses)
    return tuple(Held(pci=use.pci, partition=use.partition, bytes=size) for use, size in found if size)


def _held_bytes(use: Use, *, computes: bool) -> int:
    if use.kfd_bytes:
        return use.kfd_bytes
    if computes and use.kfd_bytes == 0:
        return 0
    return use.fdinfo_bytes or 0


def _holder(process: GpuProcess, world: World) -> Holder | None:
    case = _case(process, world)
    if not case.bytes and not process.has_kfd_entry:
        return None  # a program that draws on a screen, say
    for rule in _RULES:
        verdict = rule(case)
        if verdict is not None:
            return Holder(
                process=process,
                holder_class=verdict.holder_class,
                owner=case.owner,
                held=case.held,
                reason=verdict.reason,
                action=verdict.action,
                age_seconds=case.age_seconds,
            )
    return None


def _case(process: GpuProcess, world: World) -> _Case:
    age = None if process.start_time is None else world.now_seconds - process.start_time / world.ticks_per_second
    owner = owner_of(process.cgroup, process.namespaces)
    return _Case(process, owner, held(process), age, world)


# The rules, in their order


def _gone(case: _Case) -> _Verdict | None:
    process = case.process
    if process.exists:
        return None
    if case.bytes:
        why = "the compute driver still counts memory for a process that is gone: it is being released, or was lost"
        return _Verdict(HolderClass.GHOST, Action.ALERT, why)
    return _Verdict(HolderClass.GHOST, Action.NONE, "an entry of a process that is gone; it holds nothing")


def _unknown(case: _Case) -> _Verdict | None:
    if case.process.start_time is None:
        return _foreign("who it is cannot be told: /proc/PID/stat says nothing that makes sense")
    return None


def _pure_zombie(case: _Case) -> _Verdict | None:
    process = case.process
    if process.state == "Z" and process.live_threads == 0:
        why = f"a zombie: it ended, and waits for its parent, {process.parent}, to notice; there is nothing to kill"
        return _Verdict(HolderClass.ZOMBIE, Action.REAP_PARENT, why)
    return None


def _holds_nothing(case: _Case) -> _Verdict | None:
    if case.bytes:
        return None
    return _Verdict(HolderClass.MONITOR, Action.NONE, "it has opened the compute driver and holds no memory")


def _hidden(case: _Case) -> _Verdict | None:
    if not case.process.may_look:
        return _foreign("its open files may not be looked at")
    return None


def _stuck(case: _Case) -> _Verdict | None:
    seconds = case.process.kill_pending_seconds
    if seconds is not None and case.process.stuck_thread:
        why = "it was killed and sleeps in the driver: only a reboot ends it"
    elif seconds is not None and seconds >= STUCK_SECONDS:
        why = f"it is alive {seconds:.0f} s after it was killed: only a reboot ends it"
    else:
        return None
    return _Verdict(HolderClass.STUCK, Action.REBOOT, why)


def _reused_number(case: _Case) -> _Verdict | None:
    process = case.process
    if not process.has_kfd_entry or process.kfd_open or process.drm_open or process.state == "Z":
        return None
    why = "the compute driver counts memory for this number, but the process has no GPU open: the number was reused"
    return _Verdict(HolderClass.GHOST, Action.ALERT, why)


def _in_container(case: _Case) -> _Verdict | None:
    if case.owner.kind is not OwnerKind.CONTAINER:
        return None
    name = case.owner.name
    unit = case.world.containers.get(name or "")
    if unit is not None:
        return _Verdict(HolderClass.OWNED, Action.NONE, f"in the container of {unit}")
    which = f"in container {name[:12]}" if name else "in another pid namespace"
    return _Verdict(HolderClass.CONTAINED, Action.ALERT, f"{which}, which no managed unit names")


def _in_service(case: _Case) -> _Verdict | None:
    """Of the present start of a service; or of one that systemd says nothing of."""
    if case.owner.kind is not OwnerKind.UNIT:
        return None
    unit = _unit(case)
    if unit is None:
        return _foreign(f"what systemd says of {case.owner.name} is not known")
    if not _is_of_present_start(case, unit):
        return None
    if unit.active_state in _RUNNING:
        return _Verdict(HolderClass.OWNED, Action.NONE, f"{unit.name} is {unit.active_state}")
    if unit.active_state in _CHANGING and unit.sub_state != _WAITS_FOR_RESTART:
        return _Verdict(HolderClass.OWNED, Action.NONE, f"{unit.name} is {unit.active_state} ({unit.sub_state})")
    return None


def _zombie_leader(case: _Case) -> _Verdict | None:
    process = case.process
    if process.state != "Z":
        return None
    if not process.live_threads or not (process.kfd_open or process.drm_open):
        return _foreign("it ended, and it cannot be told which of its threads still hold a GPU")
    doubt = _namespace_doubt(case)
    if doubt:
        return _foreign(doubt)
    why = f"its leader ended, {process.live_threads} other threads live on and hold the GPU"
    return _Verdict(HolderClass.ZOMBIE_LEADER, Action.TERMINATE, why)


def _orphan(case: _Case) -> _Verdict | None:
    left = _left_behind(case)
    if left is None:
        return None
    doubts = [*_doubts(case), *_listening_doubt(case)]
    if doubts:
        return _foreign(f"{left}; but {doubts[0]}")
    idle = min(case.world.idle_seconds[held.pci, held.partition] for held in case.held)
    why = f"{left}; nobody of it listens, and its GPU was idle for {idle:.0f} s"
    return _Verdict(HolderClass.ORPHAN, Action.TERMINATE, why)


def _live(case: _Case) -> _Verdict | None:
    if case.owner.kind is OwnerKind.SESSION:
        return _foreign("a job of a person: whoever started it is there")
    return _foreign("it belongs to no service, session or container that is known")


_RULES: tuple[_Rule, ...] = (
    _gone,
    _unknown,
    _pure_zombie,
    _holds_nothing,
    _hidden,
    _stuck,
    _reused_number,
    _in_container,
    _in_service,
    _zombie_leader,
    _orphan,
    _live,
)


# What the rules are made of


def _foreign(reason: str) -> _Verdict:
    return _Verdict(HolderClass.FOREIGN, Action.NONE, reason)


def _unit(case: _Case) -> UnitState | None:
    units, name = case.world.units, case.owner.name
    return None if units is None or name is None else units.get(name)


def _is_of_present_start(case: _Case, unit: UnitState) -> bool:
    """By the start's own number; without it (engines overwrite it with their title) by when the last main one ended."""
    if case.process.invocation is not None and unit.invocation:
        return case.process.invocation == unit.invocation
    if unit.active_state in _RUNNING and not unit.main_pid:
        return True  # a service whose main process is meant to have ended
    started = (case.process.start_time or 0) / case.world.ticks_per_second
    return started > unit.main_exited_at


def _left_behind(case: _Case) -> str | None:
    """Why its starter is gone; `None` when it is not, or when that is not known."""
    process, owner = case.process, case.owner
    if owner.kind is OwnerKind.UNIT:
        unit = _unit(case)
        return None if unit is None else _left_by(unit)
    if owner.kind is OwnerKind.SESSION and process.group_is_led is False:
        return f"the program that started it ({process.group}) is gone, and this outlived it"
    return None


def _left_by(unit: UnitState) -> str:
    """How a process came to be left behind by a service that it does not belong to any more."""
    if unit.load_state == "not-found":
        return f"{unit.name} does not exist any more"
    if unit.sub_state == _WAITS_FOR_RESTART:
        return f"{unit.name} waits to be restarted, and this outlived its last start"
    if unit.active_state in _RUNNING | _CHANGING:
        return f"{unit.name} was started anew, and this is of an earlier start"
    return f"{unit.name} is {unit.active_state}, and this outlived it"


def _doubts(case: _Case) -> Iterator[str]:
    """What speaks against leaving no doubt that an outliving process is of no use, without its sockets."""
    process = case.process
    if not (process.kfd_open or process.drm_open):
        yield "it has no GPU open"
    if not case.bytes:
        yield "it holds no memory"
    if case.age_seconds is None or case.age_seconds <= YOUNG_SECONDS:
        yield f"it is not older than {YOUNG_SECONDS:.0f} s"
    idles = [case.world.idle_seconds.get((held.pci, held.partition)) for held in case.held]
    if None in idles:
        yield "it is not known whether its GPU is busy"
    elif any(idle is not None and idle < IDLE_SECONDS for idle in idles):
        yield f"its GPU was busy within {IDLE_SECONDS:.0f} s"
    doubt = _namespace_doubt(case)
    if doubt:
        yield doubt


def _namespace_doubt(case: _Case) -> str | None:
    return None if case.process.namespaces == 1 else "it is not known to be a process of this host"


def _listening_doubt(case: _Case) -> Iterator[str]:
    if case.process.listening is None:
        yield "nobody has looked yet whether it listens"
    elif case.process.listening:
        yield "it, or another process of it, serves at a port"


def _is_suspect(case: _Case) -> bool:
    return (
        case.process.exists
        and case.process.start_time is not None
        and case.process.state != "Z"
        and _left_behind(case) is not None
        and _in_service(case) is None
        and not any(True for _ in _doubts(case))
    )
