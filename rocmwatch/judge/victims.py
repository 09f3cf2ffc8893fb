"""Whom a clean-up may end, and whom no option makes it end: pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from rocmwatch.model import Action, Holder, HolderClass, OwnerKind

MOST_VICTIMS = 8
MONITORS = frozenset(
    {"rdcd", "gpuagent", "amd-smi", "rocm-smi", "rocmwatch", "rw-launcher", "rw-sensors", "rw-processes"}
)
_KERNEL = (0, 2)  # the parents of the kernel's own threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for.

    Attributes:
        pci: Only holders on this GPU.
        pid: Only this process; that it cannot be ended is then an error.
        sessions: Whether what belongs to people's sessions may be ended without being asked one by one.
        most: How many at most.
    """

    pci: str | None = None
    pid: int | None = None
    sessions: bool = False
    most: int = MOST_VICTIMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be done.

    Attributes:
        victims: In the order in which they would be ended; most memory first.
        spared: (holder, why) of those that would have to be ended and are not.
        refusal: Why nothing may be done at all; empty when something may.
    """

    victims: tuple[Holder, ...] = ()
    spared: tuple[tuple[Holder, str], ...] = ()
    refusal: str = ""


def plan(holders: Iterable[Holder], wish: Wish, *, lineage: Collection[int], parents: Mapping[int, int]) -> Plan:
    """Chooses the victims.

    Args:
        holders: Of the whole node.
        wish: What was asked for.
        lineage: This process and its ancestors.
        parents: The parent of each process that is known.
    """
    wanted = [holder for holder in holders if _is_wanted(holder, wish)]
    if wish.pid is not None and not wanted:
        return Plan(refusal=f"process {wish.pid} holds no GPU memory here")
    found = [(holder, why_not(holder, lineage=lineage, parents=parents)) for holder in wanted]
    if wish.pid is not None and found[0][1]:
        return Plan(spared=((wanted[0], found[0][1]),), refusal=f"process {wish.pid} is not ended: {found[0][1]}")
    victims = tuple(holder for holder, why in found if not why)
    spared = tuple((holder, why) for holder, why in found if why and holder.action is Action.TERMINATE)
    if len(victims) > wish.most:
        why = f"{len(victims)} victims are more than {wish.most}: --max-victims {len(victims)} if that is meant"
        return Plan(spared=tuple((holder, why) for holder in victims) + spared, refusal=why)
    return Plan(victims=victims, spared=spared)


def why_not(holder: Holder, *, lineage: Collection[int], parents: Mapping[int, int]) -> str:
    """Why a holder must not be ended, whatever was asked for; empty when it may be."""
    checks: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: holder.process.pid <= 1, "it is the first process"),
        (lambda: holder.process.pid in lineage, "it is this program, or one that started it"),
        (lambda: holder.process.parent in _KERNEL, "it is a thread of the kernel, or its parent is not known"),
        (lambda: holder.process.parent is None, "its parent is not known"),
        (lambda: holder.process.comm in MONITORS, "it is a monitor"),
        (lambda: holder.action is not Action.TERMINATE, f"{holder.holder_class.value}: {holder.reason}"),
        (lambda: holder.holder_class is HolderClass.OWNED, "it belongs to a service"),
        (lambda: any(_descends(pid, holder.process.pid, parents) for pid in lineage), "this program descends from it"),
    )
    return next((why for check, why in checks if check()), "")


def needs_asking(holder: Holder, wish: Wish) -> bool:
    """Whether a person has to agree to this one: --yes is not enough for what belongs to a session."""
    return holder.owner.kind is OwnerKind.SESSION and not wish.sessions


def _is_wanted(holder: Holder, wish: Wish) -> bool:
    if wish.pid is not None:
        return holder.process.pid == wish.pid
    return wish.pci is None or any(held.pci == wish.pci for held in holder.held)


def _descends(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False
