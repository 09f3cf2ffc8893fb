"""Which GPUs the node has, listed by the sensors reader.

    /sys/class/drm/card*        -> a GPU is a card whose device/uevent says amdgpu on the PCI bus
    /sys/class/kfd/kfd/topology -> its KFD nodes, one a compute partition

MI300 cards also have seven XCP platform devices each, which show up as card*: they have no PCI address, and the
partition behind each is known by its KFD node. Opens nothing of a GPU but `uevent`, which the PCI core answers itself.
The two are subjects of their own, so that a compute driver that hangs does not hide the cards.
"""

import os
from collections.abc import Iterable, Iterator

from rocmwatch.errors import ParseError
from rocmwatch.kernel.drm import is_card, parse_uevent, pci_of
from rocmwatch.kernel.kfd import KfdNode, make_node, parse_properties
from rocmwatch.kernel.number import parse_number, parse_text
from rocmwatch.observe.files import GONE, Faults, Folder, Pinned, errno_name
from rocmwatch.observe.wire import CardsFrame, NodesFrame

CLASS_DRM = "/sys/class/drm"
TOPOLOGY_FOLDER = "/sys/class/kfd/kfd/topology"
NODES_FOLDER = f"{TOPOLOGY_FOLDER}/nodes"
DEBUGFS_DRI = "/sys/kernel/debug/dri"
SOURCE = "topology"
_WITHOUT_DEBUGFS = "fragmentation and free blocks go without"
_WITHOUT_NODES = "(the device cgroup: DeviceAllow=char-226 rw): partitions and compute driver's ids go without"
_REFUSED = ("EPERM", "EACCES")
_GPU_ID_HIGH = 1 << 32
_USED_HIGH = 1 << 50


class Discovery:
    """Lists the GPUs and their nodes, and knows cheaply whether that is needed again."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._sys = Folder(root, "/sys", forgiving=True, absent=GONE)
        self._topology = Folder(root, TOPOLOGY_FOLDER, forgiving=True, absent=GONE)
        self._counter: Pinned | None = None
        self._cards: CardsFrame | None = None
        self._generation: int | None = None
        self._nodes_in_doubt = True

    def cards(self) -> CardsFrame | None:
        """The GPUs; `None` when they are the same as last time."""
        faults = Faults(0)
        names = self._sys.list("class/drm", SOURCE, faults)
        listed = not faults.found
        cards = tuple(sorted(self._with_addresses(filter(is_card, names), faults)))
        version = self._sys.text("module/amdgpu/version", SOURCE, faults)
        frame = CardsFrame(
            cards=cards if listed else None,
            driver_version=parse_text(version) if version else None,
            notes=self._notes_on_debugfs() if cards else (),
            faults=tuple(faults.found),
        )
        if frame == self._cards and not faults.found:
            return None
        self._cards = frame
        return frame

    def nodes(self, *, anyway: bool) -> NodesFrame | None:
        """The nodes of the compute driver; `None` when they are the same as last time.

        It counts its changes, and that is one read a tick.

        Args:
            anyway: Whether to look at the nodes if there is no count, or if they could not all be read last time.
        """
        faults = Faults(0)
        generation = self._read_counter(faults)  # before the rest: a change meanwhile shows next time
        if generation == self._generation and not (anyway and self._nodes_in_doubt):
            return None
        names = self._topology.list("nodes", SOURCE, faults)
        listed = not faults.found
        nodes = [node for name in names if name.isdecimal() and (node := self._node(name, faults))]
        self._generation = generation
        self._nodes_in_doubt = generation is None or bool(faults.found)
        refused = next((fault for fault in faults.found if fault[2] in _REFUSED), None)
        return NodesFrame(
            nodes=tuple(tuple(node) for node in sorted(nodes)) if listed else None,
            notes=(f"{refused[3]}: {refused[2]} {_WITHOUT_NODES}",) if refused else (),
            faults=tuple(fault for fault in faults.found if fault[2] not in _REFUSED),
        )

    def _with_addresses(self, cards: Iterable[str], faults: Faults) -> Iterator[tuple[str, str]]:
        """(PCI address, cardN) of the GPUs among the cards; an empty address when it cannot be told."""
        for name in cards:
            before = len(faults.found)
            raw = self._sys.text(f"class/drm/{name}/device/uevent", SOURCE, faults)
            if raw is not None and parse_text(raw) is None:
                faults.add(SOURCE, "ENODATA", f"{CLASS_DRM}/{name}/device/uevent")
            if len(faults.found) > before:
                yield "", name
            elif pci := pci_of(parse_uevent(raw or b"")):
                yield pci, name

    def _node(self, name: str, faults: Faults) -> KfdNode | None:
        folder = f"nodes/{name}"
        properties = self._properties(folder, faults)
        if properties is None:
            return None
        banks = []
        for bank in self._topology.list(f"{folder}/mem_banks", SOURCE, faults):
            raw = self._properties(f"{folder}/mem_banks/{bank}", faults)
            if raw is not None:
                banks.append((raw, self._number(f"{folder}/mem_banks/{bank}/used_memory", _USED_HIGH, faults)))
        gpu_id = self._number(f"{folder}/gpu_id", _GPU_ID_HIGH, faults)
        return make_node(int(name), gpu_id, self._topology.text(f"{folder}/name", SOURCE, faults), properties, banks)

    def _properties(self, folder: str, faults: Faults) -> bytes | None:
        """The bytes of a `properties` file when it holds any."""
        raw = self._topology.text(f"{folder}/properties", SOURCE, faults)
        if raw is None or parse_properties(raw):
            return raw
        faults.add(SOURCE, "EBADMSG" if parse_text(raw) else "ENODATA", f"{TOPOLOGY_FOLDER}/{folder}/properties")
        return None

    def _number(self, file: str, high: int, faults: Faults) -> bytes | None:
        """The bytes of a file when they are a number."""
        raw = self._topology.text(file, SOURCE, faults)
        try:
            if raw is not None:
                parse_number(raw, 0, high)
        except ParseError as error:
            faults.add(SOURCE, error.errno, f"{TOPOLOGY_FOLDER}/{file}")
            return None
        return raw

    def _read_counter(self, faults: Faults) -> int | None:
        """KFD's count of its changes, from a descriptor that stays open."""
        if self._counter is None:
            self._counter = self._topology.pin("generation_id", SOURCE, faults)
        raw = self._topology.read(self._counter, faults) if self._counter else None
        if raw is None:
            self._topology.close()
            self._counter = None
            return None
        try:
            return parse_number(raw, 0, 2**64 - 1)
        except ParseError as error:
            faults.add(SOURCE, error.errno, f"{TOPOLOGY_FOLDER}/generation_id")
            return None

    def _notes_on_debugfs(self) -> tuple[str, ...]:
        try:
            os.listdir(self._root + DEBUGFS_DRI)
        except PermissionError:
            return (f"{DEBUGFS_DRI}: no permission (needs CAP_DAC_READ_SEARCH): {_WITHOUT_DEBUGFS}",)
        except OSError as error:
            return (f"{DEBUGFS_DRI}: {errno_name(error.errno)} (is debugfs mounted?): {_WITHOUT_DEBUGFS}",)
        return ()
