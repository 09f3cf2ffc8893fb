"""Which GPUs the node has, listed by the sensors reader.

    /sys/class/drm/card*        -> a GPU is a card whose device/uevent says amdgpu on the PCI bus
    /sys/class/kfd/kfd/topology -> its KFD nodes, one a compute partition

MI300 cards also have seven XCP platform devices each, which show up as card*: they have no PCI address, and the
partition behind each is known by its KFD node's PCI address and render minor. Opens nothing of a sick GPU but
`uevent`, which the PCI core answers itself.
"""

import errno
import os

from rocmwatch.errors import ParseError
from rocmwatch.kernel.drm import is_card, parse_uevent, pci_of
from rocmwatch.kernel.kfd import KfdNode, make_node
from rocmwatch.kernel.number import parse_number, parse_text
from rocmwatch.observe.wire import TOPOLOGY, FaultTuple, TopologyFrame

CLASS_DRM = "/sys/class/drm"
TOPOLOGY_FOLDER = "/sys/class/kfd/kfd/topology"
GENERATION = f"{TOPOLOGY_FOLDER}/generation_id"
DEBUGFS_DRI = "/sys/kernel/debug/dri"
_WITHOUT_DEBUGFS = "fragmentation and free blocks go without"
_LARGEST_FILE = 16384


def errno_name(number: int | None) -> str:
    """`EIO` for 5; the number itself where it has no name."""
    return errno.errorcode.get(number or 0, f"E{number}")


def read_file(path: str) -> bytes:
    """The whole of a small file, in one read.

    Raises:
        OSError: As open and read do.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LARGEST_FILE)
    finally:
        os.close(descriptor)


class Discovery:
    """Lists the GPUs, and knows cheaply whether that is needed again."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._descriptor: int | None = None
        self._generation: int | None = None
        self._names: list[str] | None = None
        self._faults: list[FaultTuple] = []

    def look(self, *, compare_names: bool) -> TopologyFrame | None:
        """The topology if it changed since the last look, else `None`.

        KFD counts its changes, which is one read a tick. With `compare_names`, so are the names of the cards.
        """
        if self._names is None or self._read_generation() != self._generation:
            return self.survey()
        if compare_names and self._card_names() != self._names:
            return self.survey()
        return None

    def survey(self) -> TopologyFrame:
        """The topology as it is now."""
        self._faults = []
        self._generation = self._read_generation()  # before the rest: a change meanwhile shows next time
        self._names = self._card_names()
        return TopologyFrame(
            generation=self._generation,
            cards=tuple(self._cards(self._names)),
            nodes=tuple(tuple(node) for node in self._nodes()),
            driver_version=self._text("/sys/module/amdgpu/version"),
            notes=tuple(self._notes()),
            faults=tuple(self._faults),
        )

    def _cards(self, names: list[str]) -> list[tuple[str, str]]:
        cards = []
        for name in names:
            raw = self._read(f"{CLASS_DRM}/{name}/device/uevent")
            pci = pci_of(parse_uevent(raw)) if raw is not None else None
            if pci:
                cards.append((pci, name))
        return sorted(cards)

    def _nodes(self) -> list[KfdNode]:
        nodes = []
        for name in self._names_in(f"{TOPOLOGY_FOLDER}/nodes"):
            folder = f"{TOPOLOGY_FOLDER}/nodes/{name}"
            properties = self._read(f"{folder}/properties") if name.isdigit() else None
            if properties is None:
                continue
            banks = []
            for bank in self._names_in(f"{folder}/mem_banks"):
                raw = self._read(f"{folder}/mem_banks/{bank}/properties")
                if raw is not None:
                    banks.append((raw, self._read(f"{folder}/mem_banks/{bank}/used_memory")))
            node = make_node(int(name), self._read(f"{folder}/gpu_id"), self._read(f"{folder}/name"), properties, banks)
            if node is not None:
                nodes.append(node)
        return sorted(nodes)

    def _notes(self) -> list[str]:
        try:
            os.listdir(self._root + DEBUGFS_DRI)
        except PermissionError:
            return [f"{DEBUGFS_DRI}: no permission (needs CAP_DAC_READ_SEARCH): {_WITHOUT_DEBUGFS}"]
        except OSError as error:
            return [f"{DEBUGFS_DRI}: {errno_name(error.errno)} (is debugfs mounted?): {_WITHOUT_DEBUGFS}"]
        return []

    def _card_names(self) -> list[str]:
        return sorted(name for name in self._names_in(CLASS_DRM) if is_card(name))

    def _read_generation(self) -> int | None:
        """KFD's count, from a descriptor that stays open."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._root + GENERATION, os.O_RDONLY | os.O_CLOEXEC)
            return parse_number(os.pread(self._descriptor, 32, 0), 0, 2**64 - 1)
        except ParseError:
            return None
        except OSError as error:
            self._note_fault(error, GENERATION)
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            return None

    def _text(self, path: str) -> str | None:
        raw = self._read(path)
        return parse_text(raw) if raw is not None else None

    def _names_in(self, path: str) -> list[str]:
        try:
            return os.listdir(self._root + path)
        except OSError as error:
            self._note_fault(error, path)
            return []

    def _read(self, path: str) -> bytes | None:
        try:
            return read_file(self._root + path)
        except OSError as error:
            self._note_fault(error, path)
            return None

    def _note_fault(self, error: OSError, path: str) -> None:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):  # absence, or gone between list and read
            self._faults.append((TOPOLOGY, errno_name(error.errno), path))
