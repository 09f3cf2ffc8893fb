"""Who has something of the GPUs, and what that is to us."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one process has of one place.

    Attributes:
        pci: The GPU.
        partition: Its partition; `None` where the GPU has none, or it cannot be told.
        kfd_bytes: VRAM that the compute driver charged to it.
        fdinfo_bytes: VRAM that its DRM clients have mapped; never added to the other.
        gtt_bytes: Host memory that its DRM clients have mapped.
        evicted_bytes: See `Pressure`; so for the others.
    """

    pci: str
    partition: str | None = None
    kfd_bytes: int | None = None
    fdinfo_bytes: int | None = None
    gtt_bytes: int | None = None
    evicted_bytes: int | None = None
    requested_bytes: int | None = None
    evicted_seconds: float | None = None
    page_faults: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that has something of a GPU: an entry in KFD, or a DRM client.

    Attributes:
        pid: As the host counts.
        start_time: Clock ticks after boot: with the pid, its identity within a boot. `None` when there is no such
            process (any more), or it cannot be told who it is.
        comm: Its name, as the kernel keeps it (at most 15 bytes).
        exists: Whether there is a process of that number.
        state: `R S D Z T ...`, as ps shows it.
        parent: The pid of its parent.
        group: Its process group, the number of the process that leads or led it; `session` likewise.
        group_is_led: Whether the leader of its group is alive.
        uid: Whose it is.
        namespaces: How many pid namespaces know it; 1 is a process of the host.
        live_threads: Threads that are not zombies, where the process is one or is being killed.
        stuck_thread: Whether one of those sleeps in the kernel and cannot be woken (D).
        kill_pending_seconds: For how long a SIGKILL has been waiting for it; `None` when none is.
        cgroup: Path of its control group.
        invocation: INVOCATION_ID of its environment: the start of the service that it came from.
        has_kfd_entry: Whether it stands in the compute driver's books.
        has_queues: Whether it has queues of work there.
        may_look: Whether its open files could be looked at.
        kfd_open: Whether it has /dev/kfd open, or mapped; `drm_open` the same of a GPU's DRM node.
        listening: Whether it, or another process of its group or service, listens on a socket; `None` when nobody
            looked.
    """

    pid: int
    start_time: int | None = None
    comm: str | None = None
    exists: bool = True
    state: str | None = None
    parent: int | None = None
    group: int | None = None
    session: int | None = None
    group_is_led: bool | None = None
    uid: int | None = None
    namespaces: int | None = None
    live_threads: int | None = None
    stuck_thread: bool = False
    kill_pending_seconds: float | None = None
    cgroup: str | None = None
    invocation: str | None = None
    has_kfd_entry: bool = False
    has_queues: bool = False
    may_look: bool = True
    kfd_open: bool = False
    drm_open: bool = False
    listening: bool | None = None
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitState:
    """A systemd unit, as the manager has it.

    Attributes:
        name: With its suffix.
        load_state: `loaded`, `not-found`, ...
        active_state: `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`, ...
        sub_state: E.g. `running`, `auto-restart`.
        invocation: INVOCATION_ID of its present or last start.
        main_pid: 0 when it has no main process.
        main_exited_at: When its last main process ended, seconds of the boot's clock; 0 when none did.
        restarts: How often it was restarted by itself.
    """

    name: str
    load_state: str = "loaded"
    active_state: str = "inactive"
    sub_state: str = ""
    invocation: str = ""
    main_pid: int = 0
    main_exited_at: float = 0.0
    restarts: int = 0


class HolderClass(str, Enum):
    """What a process that has a GPU's memory is to us: a closed set, as users script against these words."""

    OWNED = "owned"
    ORPHAN = "orphan"
    ZOMBIE_LEADER = "zombie_leader"
    ZOMBIE = "zombie"
    STUCK = "stuck"
    CONTAINED = "contained"
    GHOST = "ghost"
    MONITOR = "monitor"
    FOREIGN = "foreign"


class Action(str, Enum):
    """What there is to be done about a holder."""

    NONE = "none"
    TERMINATE = "terminate"
    ALERT = "alert"
    REAP_PARENT = "reap_parent"
    REBOOT = "reboot"


class OwnerKind(str, Enum):
    """Who started a process."""

    UNIT = "unit"
    CONTAINER = "container"
    SESSION = "session"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who a process belongs to, by its control group."""

    kind: OwnerKind = OwnerKind.NONE
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """VRAM that a process holds on one place."""

    pci: str
    partition: str | None
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds a GPU's memory, or stands in the compute driver's books.

    Attributes:
        process: Who it is.
        holder_class: What it is to us.
        owner: Who it belongs to.
        held: Where it holds how much; only what is above 0.
        reason: Why it is of that class, in words that a person can check.
        action: What there is to be done.
        age_seconds: Since its start; `None` when that is not known.
    """

    process: GpuProcess
    holder_class: HolderClass
    owner: Owner
    held: tuple[Held, ...]
    reason: str
    action: Action
    age_seconds: float | None = None

    @property
    def held_bytes(self) -> int:
        """All that it holds, on all places."""
        return sum(held.bytes for held in self.held)


class Attribution(str, Enum):
    """Whether the holders explain the memory in use."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What one GPU's VRAM in use comes to.

    Attributes:
        attribution: Whether the holders explain it.
        held_bytes: By holders.
        idle_floor_bytes: What the driver keeps for itself; `None` before that could once be told.
        unowned_bytes: What is neither, for longer than a lazy release takes; `None` when it cannot be told.
        idle_seconds: For how long it has been less busy than 2 %; `None` when it is busy, or that is not known.
    """

    pci: str
    attribution: Attribution
    held_bytes: int = 0
    idle_floor_bytes: int | None = None
    unowned_bytes: int | None = None
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Who holds what, and what nobody holds.

    Attributes:
        holders: Most memory first.
        balances: In the order of the GPUs.
        driver_leak: Whether all GPUs have about the same unowned memory: that is the driver's doing.
        notes: What cannot be told, a line each.
    """

    attribution: Attribution
    holders: tuple[Holder, ...] = ()
    balances: tuple[Balance, ...] = ()
    driver_leak: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupVram:
    """VRAM that the kernel charges to a control group (`dmem.current`).

    Attributes:
        cgroup: Its path below the cgroup root (`/system.slice/vllm.service`).
    """

    cgroup: str
    pci: str
    bytes: int
