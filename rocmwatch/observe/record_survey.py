"""What there is to record on this node: the table's paths, looked up by listing folders. No file of a GPU is read.

Only `uevent` is read, which the bus answers: it says whose a card is. Links are followed by their text, as sysfs's lead
from real folder to real folder, and those that were followed are part of the record.
"""

import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

from rocmwatch.kernel.drm import is_card, minor_of, parse_uevent, pci_of
from rocmwatch.observe.record_hands import Hands
from rocmwatch.observe.record_reader import DEVICES, FILE, FOLDER, VANISHED, Entry
from rocmwatch.observe.record_table import (
    BOOKS,
    CARD,
    CGROUP,
    CLIENT,
    FORBIDDEN,
    GPU,
    PROCESS,
    RENDER,
    ROOT,
    TABLE,
    THREAD,
    Item,
    items,
    parts,
)

DRM = "sys/class/drm"
DRI = "sys/kernel/debug/dri"
KFD_PROC = "sys/class/kfd/kfd/proc"
CGROUP_ROOT = "sys/fs/cgroup"
DEEPEST_CGROUP = 12
MOST_CGROUPS = 20_000
MOST_THREADS = 100  # of one process
_CONTEXT = re.compile("context_[0-9]+")


class Wanted(NamedTuple):
    """A file to read.

    Attributes:
        path: Where it really is, below the root.
        item: The line of the table.
        group: What hangs with it, if it hangs.
        guards: The devices that have to be awake.
    """

    path: str
    item: Item
    group: str
    guards: tuple[str, ...] = ()


class Plan(NamedTuple):
    """What there is.

    Attributes:
        wanted: In the order in which it is read.
        links: Path to what it says.
        absent: What the table has, and the node has not.
        forbidden: What lies there, and is not touched.
        failed: Folders that could not be listed, and why.
        folders: Those that say something by being there.
        gpus: PCI addresses.
        pids: Processes.
    """

    wanted: tuple[Wanted, ...]
    links: dict[str, str]
    absent: tuple[str, ...]
    forbidden: tuple[str, ...]
    failed: dict[str, str]
    folders: tuple[str, ...]
    gpus: tuple[str, ...]
    pids: tuple[int, ...]


class Survey:
    """One look around."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._folders: dict[str, dict[str, Entry]] = {}
        self._wanted: dict[str, Wanted] = {}
        self._links: dict[str, str] = {}
        self._absent: dict[str, None] = {}
        self._failed: dict[str, str] = {}
        self._gpus: dict[str, tuple[str, str]] = {}  # device -> (PCI address, cardN)

    def plan(self) -> Plan:
        """Looks around."""
        self._want(ROOT, "", "")
        self._cards()
        for device, (pci, card) in self._gpus.items():
            self._want(GPU, device, device, guards=(device,))
            self._tables(pci, str(minor_of(card)))
        self._render_nodes()
        pids, refused = self._hands.pids()
        if refused:
            self._failed["proc"] = refused
        for pid in pids:
            self._process(pid)
        self._cgroups()
        found = (f"{folder}/{name}" for folder, entries in self._folders.items() for name in entries)
        return Plan(
            wanted=tuple(self._wanted.values()),
            links=self._links,
            absent=tuple(path for path in self._absent if path not in self._wanted),
            forbidden=tuple(sorted(path for path in found if FORBIDDEN.fullmatch(path))),
            failed=self._failed,
            folders=tuple(name for name in ("proc", DRM, DRI) if self._folders.get(name)),
            gpus=tuple(pci for pci, _ in self._gpus.values()),
            pids=pids,
        )

    # Whose cards

    def _cards(self) -> None:
        cards = [name for name in self._list(DRM) if is_card(name)]
        for card in sorted(cards, key=lambda name: minor_of(name) or 0):
            device = self._below(DRM, (card, "device"))
            if device is None:
                continue
            self._want(CARD, device, device)
            uevent = self._hands.ask(FILE, f"{device}/uevent").value
            pci = pci_of(parse_uevent(uevent)) if uevent else None
            if pci:
                self._gpus[device] = (pci, card)
                self._below(device, ("driver",))

    def _render_nodes(self) -> None:
        for name in self._list(DRM):
            if name.startswith("renderD"):
                device = self._below(DRM, (name, "device"))
                if device in self._gpus:
                    self._want(RENDER, device, device, guards=(device,))
                elif device is not None and posixpath.basename(device).startswith("amdgpu_xcp"):
                    # Nothing says which GPU a partition's device belongs to: all of them have to be awake.
                    self._want(RENDER, device, device, guards=tuple(self._gpus))

    def _tables(self, pci: str, minor: str) -> None:
        """The table of free blocks: by address since Linux 6.8, by the card's number before."""
        if posixpath.basename(DRI) not in self._list(posixpath.dirname(DRI)):
            self._absent[f"{DRI}/{pci}/amdgpu_vram_mm"] = None
            return
        for name in (pci, minor):
            folder = self._below(DRI, (name,))
            if folder is not None:
                self._want(TABLE, folder, f"table {pci}")

    # Processes

    def _process(self, pid: int) -> None:
        group = f"process {pid}"
        books = self._below("", (*KFD_PROC.split("/"), str(pid)))
        folders = [books] if books else []
        while folders:
            folder = folders.pop()
            self._want(BOOKS, folder, group, note_absent=False)
            folders += [f"{folder}/{name}" for name in self._list(folder) if _CONTEXT.fullmatch(name)]
        folder = f"proc/{pid}"
        if str(pid) not in self._list("proc"):
            return
        self._want(PROCESS, folder, group, note_absent=False)
        if self._clients(folder, group):
            return
        for thread in list(self._list(f"{folder}/task"))[:MOST_THREADS]:  # they may live on without their leader
            self._want(THREAD, f"{folder}/task/{thread}", group, note_absent=False)
            self._clients(f"{folder}/task/{thread}", group)

    def _clients(self, folder: str, group: str) -> bool:
        """Notes the GPUs that a process, or one of its threads, has open. Returns whether there is one."""
        (client,) = items(CLIENT)
        devices = self._list(f"{folder}/fd", DEVICES)
        for name, (_, target, _) in devices.items():
            self._links[f"{folder}/fd/{name}"] = str(target)
            path = f"{folder}/{client.path}/{name}"
            self._wanted[path] = Wanted(path, client, group)
        return bool(devices)

    def _cgroups(self) -> None:
        """Every control group, where the kernel counts their VRAM."""
        if "dmem.capacity" not in self._list(CGROUP_ROOT):
            return
        folders = [(CGROUP_ROOT, 0)]
        seen = 0
        while folders and seen < MOST_CGROUPS:
            folder, depth = folders.pop()
            seen += 1
            if depth:
                self._want(CGROUP, folder, folder, note_absent=False)
            if depth < DEEPEST_CGROUP:
                below = [name for name, (_, _, is_folder) in self._list(folder).items() if is_folder]
                folders += [(f"{folder}/{name}", depth + 1) for name in reversed(below)]

    # Paths

    def _want(
        self, base: str, folder: str, group: str, guards: tuple[str, ...] = (), *, note_absent: bool = True
    ) -> None:
        """Looks up every path of the table below a folder."""
        for item in items(base):
            for path in parts(item.path):
                hangs_with = group or posixpath.dirname(item.path)  # of the node, a folder does
                self._look_up(folder, path, Wanted("", item, hangs_with, guards if item.awake else ()), note_absent)

    def _look_up(self, folder: str, path: "tuple[str | re.Pattern[str], ...]", wanted: Wanted, note: bool) -> None:  # noqa: FBT001
        first, *rest = path
        entries = self._list(folder)
        if isinstance(first, str):
            if first not in entries:
                if note and all(isinstance(part, str) for part in rest):
                    self._absent["/".join((folder, first, *map(str, rest))).lstrip("/")] = None
                return
            names: Iterable[str] = (first,)
        else:
            names = sorted((name for name in entries if first.fullmatch(name)), key=_by_number)
        for name in names:
            real = self._below(folder, (name,))
            if real is None:
                continue
            if rest:
                self._look_up(real, tuple(rest), wanted, note)
            elif not entries[name][2]:
                self._wanted.setdefault(real, wanted._replace(path=real))

    def _below(self, folder: str, names: Iterable[str]) -> str | None:
        """Where a path really leads; `None` when there is no such thing, or it leads out of the root."""
        for name in names:
            entry = self._list(folder).get(name)
            if entry is None:
                return None
            path = f"{folder}/{name}".lstrip("/")
            if entry[1] is None:
                folder = path
                continue
            folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry[1]))
            if folder.startswith(("/", "..")):
                return None
            self._links[path] = entry[1]
        return folder

    def _list(self, folder: str, what: int = FOLDER) -> dict[str, Entry]:
        """The entries of a folder by name; none when it cannot be listed."""
        if folder not in self._folders:
            why, entries = self._hands.ask(what, folder)
            self._folders[folder] = {entry[0]: tuple(entry) for entry in entries or ()}
            if why and why not in VANISHED:
                self._failed[folder] = why
        return self._folders[folder]


def _by_number(name: str) -> tuple[int, str]:
    digits = re.search("[0-9]+", name)
    return (int(digits[0]) if digits else 0, name)
