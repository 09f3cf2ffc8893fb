"""What main and a reader say to each other: orders, frames, and the mailbox that carries the answers.

A request is one frame through a pipe: the orders, one a subject (a GPU, a part of the topology). The answers, one frame
each, go into memory that both share, the mailbox, and one short token through a second pipe says that all of them are
there: a tick costs the reader two system calls beside its reads. The mailbox also names the subject that is being read
at the moment. When the token does not come in time, that name is the subject which hangs, and the frames before it are
good.

    mailbox:  u64 sequence | u32 end of the frames | 20 bytes: subject in progress | frames ...
    frame:    u16 magic | u16 zero | u32 length | u32 CRC-32 of the body | body: a marshalled tuple

Every frame is checked (magic, length, CRC) before `marshal` sees it: a damaged one could make it eat the machine's
memory. Both ends are always the same build of the same interpreter, as one is forked from a child of the other.
"""

import marshal
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from rocmwatch.kernel.gpu_metrics_plan import READING

MAILBOX_BYTES = 1 << 20
PACKET_BYTES = 8192  # orders to the launcher
LARGEST_FRAME = 256 << 10
TOKEN = struct.Struct("<Q")
_MAGIC = 0x5257
_FRAME = struct.Struct("<HHII")
_HEAD = struct.Struct("<QI20s")
_MARSHAL_VERSION = 2  # without references: smaller and quicker for flat tuples

# What to do with a GPU, as bits of one number; also what a fault was about.
MEMORY = 1
SENSORS = 2
SLOW = 4  # what seldom changes: open the files anew, describe the GPU, totals, limits
FRAGMENTATION = 8
RAS = 16  # the hardware's own errors; asked of a card that is awake only

# The subjects that are no GPU, and what to do with them.
CARDS = "cards"  # which GPUs there are
NODES = "nodes"  # what the compute driver says of them
LOOK = 0  # whether the driver counted a change since the last look
LIST = 1  # look at the things themselves

# The order of the values that travel; `None` where there is nothing.
MEMORY_FIELDS = ("vram_used_bytes", "visible_vram_used_bytes", "gtt_used_bytes")
TOTAL_FIELDS = ("vram_total_bytes", "visible_vram_total_bytes", "gtt_total_bytes")
SENSOR_FIELDS = READING  # gpu_metrics is read in this order, and the files are laid over it
LIMIT_FIELDS = (
    "limit_critical_edge",
    "limit_critical_junction",
    "limit_critical_memory",
    "limit_emergency_edge",
    "limit_emergency_junction",
    "limit_emergency_memory",
    "power_cap",
    "clock_limit_sclk",
    "clock_limit_mclk",
)
PCIE_FIELDS = (
    "pcie_width",
    "pcie_max_width",
    "pcie_transfers_per_second",
    "pcie_max_transfers_per_second",
    "pcie_replays",
)

# Why there is no table of free blocks, when that is no fault.
NO_TABLE = "ENOENT"  # this kernel has none, or debugfs is not there
NO_PERMISSION = "EACCES"  # said once, as a note beside the GPUs

FaultTuple = tuple[int, str, str, str]  # what was read (a bit of an order's), source, errno, path
Table = tuple[str, int, int, tuple[tuple[int, int], ...]]  # format, chunk bytes, free bytes, ((order, blocks), ...)
Part = tuple[int, int, int]  # of a partitioned GPU: number, minor of the render node (0: not known), compute dies
LinkTuple = tuple["int | None", "int | None", "float | None", "float | None", "int | None"]  # see PCIE_FIELDS
ErrorTuple = tuple[str, int, int, "int | None"]  # block, uncorrectable, correctable, deferred


class WireError(Exception):
    """A frame is damaged: whoever sent it cannot be trusted any more."""


class Order(NamedTuple):
    """What to do with one subject.

    Attributes:
        subject: CARDS, NODES, or the PCI address of a GPU.
        what: LOOK or LIST; of a GPU a sum of MEMORY, SENSORS, SLOW, FRAGMENTATION and RAS.
        card: The GPU's cardN.
        nodes: Its partitions' nodes in KFD's topology, where those count their memory.
        parts: Its partitions, in the order of their nodes.
    """

    subject: str
    what: int
    card: str = ""
    nodes: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()


class CardsFrame(NamedTuple):
    """The answer about CARDS; `()` when it is the same as last time.

    Attributes:
        cards: (PCI address, cardN) of every amdgpu GPU, the address empty where it could not be read; `None` when they
            could not be listed.
        driver_version: /sys/module/amdgpu/version (only ROCm's own driver has it).
        notes: What cannot be read, a line each.
        faults: Reads that failed.
    """

    cards: "tuple[tuple[str, str], ...] | None"
    driver_version: str | None
    notes: tuple[str, ...]
    faults: tuple[FaultTuple, ...]


class NodesFrame(NamedTuple):
    """The answer about NODES; `()` when it is the same as last time.

    Attributes:
        nodes: The fields of each `kernel.kfd.KfdNode`; `None` when they could not be listed.
        notes: What cannot be read, a line each.
        faults: Reads that failed.
    """

    nodes: "tuple[tuple[object, ...], ...] | None"
    notes: tuple[str, ...]
    faults: tuple[FaultTuple, ...]


class Description(NamedTuple):
    """What a GPU is. A text is `None` where the driver has none.

    Attributes:
        memory_names: The fields of memory that have a file.
        sensor_names: The fields of sensors and limits that have one; `None` when that is not known, as the files of a
            sleeping card's sensors are not opened.
    """

    product: str | None
    device_id: str | None
    unique_id: str | None
    serial: str | None
    vbios: str | None
    numa_node: int | None
    compute_partition: str | None
    memory_partition: str | None
    memory_names: tuple[str, ...]
    sensor_names: "tuple[str, ...] | None"


class GpuFrame(NamedTuple):
    """The answer about one GPU.

    Attributes:
        state: `active`, `suspended`, `resetting` or `gone`.
        done: What was done: the order, and what had to be done besides, less RAS where that could not be asked for. The
            faults of all that are new.
        memory: Values in the order of MEMORY_FIELDS.
        partitions: Used bytes of each node of the order.
        sensors: Values in the order of SENSOR_FIELDS; `None` when they were not asked for or the card sleeps.
        xcc_clocks: Hertz of each compute die.
        metrics_format: format_revision of gpu_metrics, with the sensors (2 and 3 are APUs).
        totals: Values in the order of TOTAL_FIELDS.
        limits: Values in the order of LIMIT_FIELDS.
        table: The table of free blocks, or the errno's name why there is none (`ENOENT`: this kernel has none).
        description: The fields of a `Description`.
        faults: Reads that failed.
        accumulated: See `kernel.gpu_metrics.MetricsReading`, and so for the three after it; read with the sensors.
        partition_readings: Busy ratio and clock in hertz of each part of the order; read with the sensors.
        pcie: Values in the order of PCIE_FIELDS; `None` when they were not asked for or the card sleeps.
        ras: What each block counted; `None` when that was not asked for, or there was no answer.
    """

    state: str
    done: int = 0
    memory: "tuple[int | None, ...] | None" = None
    partitions: "tuple[int | None, ...]" = ()
    sensors: "tuple[float | None, ...] | None" = None
    xcc_clocks: "tuple[float | None, ...]" = ()
    metrics_format: int | None = None
    totals: "tuple[int | None, ...] | None" = None
    limits: "tuple[float | None, ...] | None" = None
    table: "Table | str | None" = None
    description: "tuple[Any, ...] | None" = None
    faults: tuple[FaultTuple, ...] = ()
    accumulated: tuple[int, ...] = ()
    accumulator_bits: int = 0
    throttle_status: int | None = None
    links: tuple[bytes, ...] = ()
    partition_readings: "tuple[tuple[float | None, float | None], ...]" = ()
    pcie: "LinkTuple | None" = None
    ras: "tuple[ErrorTuple, ...] | None" = None


def pack(value: tuple[Any, ...]) -> bytes:
    """A frame of a tuple of plain values (numbers, texts, bytes, `None`, plain tuples of these)."""
    body = marshal.dumps(value, _MARSHAL_VERSION)
    if len(body) > LARGEST_FRAME:
        raise WireError(f"a frame of {len(body)} bytes is larger than {LARGEST_FRAME}")
    return _FRAME.pack(_MAGIC, 0, len(body), zlib.crc32(body)) + body


def unpack(data: bytes, offset: int = 0) -> tuple[tuple[Any, ...], int]:
    """The tuple in the frame at `offset`, and where the next frame begins.

    Raises:
        WireError: When magic, length or check sum are wrong, or the body is no tuple.
    """
    if len(data) - offset < _FRAME.size:
        raise WireError("a frame ends before its header does")
    magic, zero, length, checksum = _FRAME.unpack_from(data, offset)
    start = offset + _FRAME.size
    body = data[start : start + length] if length <= LARGEST_FRAME else b""
    if magic != _MAGIC or zero or len(body) != length or zlib.crc32(body) != checksum:
        raise WireError("a frame is damaged")
    try:
        value = marshal.loads(body)  # noqa: S302  # made by our own child, and its check sum is right
    except (ValueError, EOFError, TypeError) as error:
        raise WireError(f"a frame holds no value: {error}") from None
    if not isinstance(value, tuple):
        raise WireError("a frame holds no tuple")
    return value, start + length


def pack_request(sequence: int, orders: tuple[Order, ...]) -> bytes:
    """What main writes into the pipe."""
    return pack((sequence, *map(tuple, orders)))


def unpack_request(data: bytes) -> tuple[int, list[Order]]:
    """The sequence number and the orders of a request."""
    (sequence, *orders), _ = unpack(data)
    return sequence, [Order(*order) for order in orders]


class Mailbox:
    """The shared memory of one reader. The reader writes, main reads."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, MAILBOX_BYTES)
        self._end = _HEAD.size

    @staticmethod
    def create() -> int:
        """A descriptor of fresh shared memory."""
        descriptor = os.memfd_create("rocmwatch-mailbox", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, MAILBOX_BYTES)
        return descriptor

    def close(self) -> None:
        """Gives the memory back (a process that still has it mapped keeps it)."""
        self._memory.close()

    def begin(self, sequence: int) -> None:
        """The reader starts to answer request `sequence`: the old frames are void."""
        self._end = _HEAD.size
        _HEAD.pack_into(self._memory, 0, sequence, self._end, b"")

    def enter(self, sequence: int, subject: str) -> None:
        """The reader starts to read `subject`."""
        _HEAD.pack_into(self._memory, 0, sequence, self._end, subject.encode())

    def put(self, sequence: int, subject: str, value: tuple[object, ...]) -> None:
        """The reader has read `subject`."""
        frame = pack((sequence, subject, tuple(value)))
        end = self._end + len(frame)
        if end > MAILBOX_BYTES:
            raise WireError("the mailbox is full")
        self._memory[self._end : end] = frame
        self._end = end
        _HEAD.pack_into(self._memory, 0, sequence, end, b"")

    def progress(self) -> tuple[int, int, str]:
        """What the reader is at: request, bytes written so far, subject in progress (empty between two)."""
        sequence, end, subject = _HEAD.unpack_from(self._memory, 0)
        return sequence, end, subject.rstrip(b"\0").decode("ascii", "replace")

    def frames(self, sequence: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """(subject, value) of each frame that is complete.

        Raises:
            WireError: When the mailbox answers another request, or a frame is damaged.
        """
        answered, end, _ = _HEAD.unpack_from(self._memory, 0)
        if answered != sequence or not _HEAD.size <= end <= MAILBOX_BYTES:
            raise WireError("the mailbox does not hold the answer to this request")
        data = self._memory[:end]  # a copy: nobody changes it under our hands
        offset = _HEAD.size
        while offset < end:
            value, offset = unpack(data, offset)
            if len(value) != 3 or value[0] != sequence or not isinstance(value[1], str) or type(value[2]) is not tuple:
                raise WireError("a frame is not of a subject of this request")
            yield value[1], value[2]
