"""What the sensors reader does: the readings of every GPU, from descriptors that stay open.

A file's descriptor is kept and read anew with `pread` (the driver answers each read afresh; opening costs fifteen
times as much). What may touch the card's management controller (SMU) is read only after `power/runtime_status` said
that the card is awake: up to Linux 6.12 such a read would wake it. `mem_info_*` are plain memory of the driver and
are read in any state. The table of free blocks lies in debugfs and is opened for each read, as a kept descriptor
there would block a reload of the driver.

The files that are opened are those named in `kernel/` and here, and no others: some in the same folders reset the GPU
when read.
"""

import errno
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.buddy import parse_buddy
from rocmwatch.kernel.dpm import current_hertz, highest_hertz, parse_dpm
from rocmwatch.kernel.drm import minor_of, parse_uevent
from rocmwatch.kernel.gpu_metrics import Decoder, MetricsReading
from rocmwatch.kernel.hwmon import HwmonPlan, plan
from rocmwatch.kernel.memory import MEMORY
from rocmwatch.kernel.number import parse_number, parse_text
from rocmwatch.kernel.partition import parse_partition_mode
from rocmwatch.kernel.runtime_pm import may_read_sensors, parse_runtime_status
from rocmwatch.observe.discovery import CLASS_DRM, DEBUGFS_DRI, Discovery, errno_name, read_file
from rocmwatch.observe.wire import (
    FRAGMENTATION,
    LIMIT_FIELDS,
    MEMORY_FIELDS,
    RELIST,
    SENSOR_FIELDS,
    SENSORS,
    SKIP,
    SLOW,
    TOPOLOGY,
    TOTAL_FIELDS,
    FaultTuple,
    GpuFrame,
    Request,
)

NUMBER_BYTES = 64
TEXT_BYTES = 4096  # pp_dpm_*, and gpu_metrics: its driver answers at most this in one read
BUDDY_BYTES = 1 << 20
GONE = frozenset({errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN})
ABSENT = frozenset({errno.EOPNOTSUPP, errno.EINVAL})  # "this card has no such sensor", said at each read
REFUSED = frozenset({errno.EPERM, errno.EBUSY})  # a reset is under way: EPERM to Linux 6.12, EBUSY later

Faults = list[FaultTuple]


class Pinned(NamedTuple):
    """An open file and what its number means."""

    descriptor: int
    size: int
    name: str  # of the value in the frame
    scale: float  # kernel unit -> base unit
    low: int
    high: int
    zero_is_absent: bool
    path: str


class _Gone(Exception):
    """The driver says that the device is not there any more."""


class SensorReader:
    """Answers the requests that concern GPUs."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._discovery = Discovery(root)
        self._gpus: dict[str, GpuFiles] = {}

    def subjects(self, request: Request) -> Iterator[tuple[str, Callable[[], tuple[object, ...] | None]]]:
        """The topology, then each GPU of the request."""
        if request.topology != SKIP:
            yield TOPOLOGY, lambda: self._discovery.look(compare_names=request.topology == RELIST)
        for pci, card, wanted in request.gpus:
            yield pci, lambda pci=pci, card=card, wanted=wanted: self._read(pci, card, wanted)  # type: ignore[misc]

    def _read(self, pci: str, card: str, wanted: int) -> GpuFrame:
        files = self._gpus.get(pci)
        try:
            if files is None or files.card != card or wanted & SLOW:
                self._forget(pci)  # a file that was not there may be by now
                files = self._gpus[pci] = GpuFiles(self._root, pci, card)
                wanted |= SLOW
            return files.read(wanted)
        except _Gone:
            self._forget(pci)
            return GpuFrame(state="gone")

    def _forget(self, pci: str) -> None:
        files = self._gpus.pop(pci, None)
        if files is not None:
            files.close()


class GpuFiles:
    """The open files of one GPU."""

    def __init__(self, root: str, pci: str, card: str) -> None:
        self.card = card
        self._root = root
        self._pci = pci
        self._device = f"{CLASS_DRM}/{card}/device"
        self._opened: list[int] = []
        self._faults: Faults = []
        try:
            self._check_identity()
            self._open_all()
        except BaseException:
            self.close()
            raise
        self._decoder = Decoder()
        self._last_metrics: tuple[bytes, MetricsReading] | None = None

    def close(self) -> None:
        """Closes every file."""
        for descriptor in self._opened:
            os.close(descriptor)
        self._opened.clear()

    def read(self, wanted: int) -> GpuFrame:
        """What is wanted, as far as the card's state allows.

        Raises:
            _Gone: When the driver says that the device is gone.
        """
        faults, self._faults = self._faults, []
        memory = self._values(self._memory, MEMORY_FIELDS, faults)
        awake, state = self._power_state(faults)
        sensors = clocks = limits = metrics_format = None
        totals = self._values(self._totals, TOTAL_FIELDS, faults) if wanted & SLOW else None
        if awake and wanted & SENSORS:
            before = len(faults)
            sensors, clocks, metrics_format = self._read_sensors(faults)
            state = self._state_of(sensors, faults[before:])
        if awake and wanted & SLOW:
            limits = self._read_limits(faults)
        return GpuFrame(
            state=state,
            memory=memory,
            sensors=sensors,
            xcc_clocks=clocks or (),
            totals=totals,
            limits=limits,
            metrics_format=metrics_format,
            buddy=self._read_buddy(faults) if wanted & FRAGMENTATION else None,
            description=self._describe(faults) if wanted & SLOW else None,
            faults=tuple(faults),
        )

    # Opening

    def _check_identity(self) -> None:
        """The number N of cardN may belong to another GPU by now."""
        try:
            uevent = parse_uevent(read_file(f"{self._root}{self._device}/uevent"))
        except OSError as error:
            raise _Gone from error
        if uevent.get("PCI_SLOT_NAME", "").lower() != self._pci:
            raise _Gone

    def _open_all(self) -> None:
        by_name = {field.name: field for field in MEMORY}
        self._memory, self._totals = (
            [
                pinned
                for name in names
                if (pinned := self._pin(by_name[name].file, name, low=by_name[name].low, high=by_name[name].high))
            ]
            for names in (MEMORY_FIELDS, TOTAL_FIELDS)
        )
        self._runtime_status = self._pin("power/runtime_status", "runtime_status")
        self._metrics = self._pin("gpu_metrics", "gpu_metrics", size=TEXT_BYTES)
        self._sensors: list[Pinned] = []
        self._limits: list[Pinned] = []
        hwmon = self._hwmon()
        if hwmon is not None:
            folder, readings = hwmon
            for target, wanted in ((self._sensors, readings.readings), (self._limits, readings.limits)):
                for reading in wanted:
                    pinned = self._pin(
                        f"{folder}/{reading.file}",
                        reading.name,
                        scale=reading.scale,
                        low=reading.low,
                        high=reading.high,
                    )
                    if pinned:
                        target.append(pinned._replace(zero_is_absent=reading.zero_is_absent))
        for file, name in (("gpu_busy_percent", "busy_gfx"), ("mem_busy_percent", "busy_memory")):
            pinned = self._pin(file, name, scale=0.01, high=100)
            if pinned:
                self._sensors.append(pinned)
        self._levels = [
            pinned
            for clock in ("sclk", "mclk")
            if (pinned := self._pin(f"pp_dpm_{clock}", f"clock_{clock}", size=TEXT_BYTES))
        ]
        self._pinned_clocks = {pinned.name for pinned in self._sensors}

    def _pin(
        self, file: str, name: str, *, scale: float = 1, low: int = 0, high: int = 2**64 - 1, size: int = NUMBER_BYTES
    ) -> Pinned | None:
        path = f"{self._device}/{file}"
        try:
            descriptor = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in GONE:
                raise _Gone from error
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._faults.append((name, errno_name(error.errno), path))
            return None
        self._opened.append(descriptor)
        return Pinned(descriptor, size, name, scale, low, high, False, path)  # noqa: FBT003

    def _hwmon(self) -> tuple[str, HwmonPlan] | None:
        """The GPU's hwmon folder below `device/`, and what to read there. Labels are constants of the driver."""
        try:
            folders = sorted(os.listdir(f"{self._root}{self._device}/hwmon"))
        except OSError:
            return None
        for folder in folders:
            path = f"{self._device}/hwmon/{folder}"
            try:
                names = os.listdir(self._root + path)
                labels = {name: self._small(f"{path}/{name}") if name.endswith("_label") else b"" for name in names}
            except NotADirectoryError:
                continue
            except OSError as error:
                self._faults.append(("hwmon", errno_name(error.errno), path))
                continue
            return f"hwmon/{folder}", plan(labels)
        return None

    # Reading

    def _power_state(self, faults: Faults) -> tuple[bool, str]:
        status = self._runtime_status
        if status is None:
            return True, "active"
        raw = self._pread(status, faults)
        try:
            word = parse_runtime_status(raw) if raw is not None else None
        except ParseError as error:
            faults.append((status.name, error.errno, status.path))
            word = None
        if raw is None or word is None:
            return False, "active"  # in doubt, the card is let sleep
        return (True, "active") if may_read_sensors(word) else (False, "suspended")

    def _state_of(self, sensors: tuple[float | None, ...], faults: Faults) -> str:
        refused = [name for _, name, _ in faults if name in ("EPERM", "EBUSY")]
        return "resetting" if refused and all(value is None for value in sensors) else "active"

    def _read_sensors(self, faults: Faults) -> tuple[tuple[float | None, ...], tuple[float | None, ...], int | None]:
        found = self._numbers(self._sensors, faults)
        metrics, metrics_format = self._read_metrics(faults)
        clocks: tuple[float | None, ...] = ()
        if metrics is not None:
            for name in SENSOR_FIELDS:
                if found.get(name) is None and name not in self._pinned_clocks:
                    found[name] = getattr(metrics, name)
            clocks = metrics.xcc_clocks
            if sum(clock is not None for clock in clocks) > 1:  # hwmon shows one die only
                found["clock_sclk"] = metrics.clock_sclk
        for level in self._levels:
            if level.name not in self._pinned_clocks and found.get(level.name) is None:
                found[level.name] = self._level(level, current_hertz, faults)
        return tuple(found.get(name) for name in SENSOR_FIELDS), clocks, metrics_format

    def _read_metrics(self, faults: Faults) -> tuple[MetricsReading | None, int | None]:
        if self._metrics is None:
            return None, None
        raw = self._pread(self._metrics, faults)
        if raw is None:
            return None, None
        if self._last_metrics is not None and self._last_metrics[0] == raw:
            return self._last_metrics[1], raw[2]
        try:
            reading = self._decoder.decode(raw)
        except ParseError as error:
            faults.append((self._metrics.name, error.errno, self._metrics.path))
            return None, None
        self._last_metrics = raw, reading
        return reading, raw[2]

    def _read_limits(self, faults: Faults) -> tuple[float | None, ...]:
        found = self._numbers(self._limits, faults)
        for level in self._levels:
            found[level.name.replace("clock_", "clock_limit_")] = self._level(level, highest_hertz, faults)
        return tuple(found.get(name) for name in LIMIT_FIELDS)

    def _level(self, level: Pinned, choose: Callable[..., int | None], faults: Faults) -> float | None:
        raw = self._pread(level, faults)
        try:
            return choose(parse_dpm(raw).levels) if raw is not None else None
        except ParseError as error:
            faults.append((level.name, error.errno, level.path))
            return None

    def _read_buddy(self, faults: Faults) -> tuple[str, int, int, tuple[tuple[int, int], ...]] | str:
        name = "absent"
        for folder in (self._pci, minor_of(self.card)):
            path = f"{DEBUGFS_DRI}/{folder}/amdgpu_vram_mm"
            try:
                table = parse_buddy(self._whole(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                name = errno_name(error.errno)
                if error.errno == errno.EACCES:  # said once, as a note of the topology
                    continue
            except ParseError as error:
                name = error.errno
            else:
                return table.format, table.chunk_bytes, table.free_bytes, tuple(table.free_blocks.items())
            faults.append(("fragmentation", name, path))
            break
        return name

    def _whole(self, path: str) -> bytes:
        """A file that may be longer than one read gives."""
        descriptor = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = b""
            while (part := os.read(descriptor, 65536)) and len(data) < BUDDY_BYTES:
                data += part
            return data
        finally:
            os.close(descriptor)

    def _describe(self, faults: Faults) -> tuple[object, ...]:
        texts = [
            self._text(file, faults)
            for file in ("product_name", "device", "unique_id", "serial_number", "vbios_version", "numa_node")
        ]
        modes = []
        for file in ("current_compute_partition", "current_memory_partition"):
            raw = self._small(f"{self._device}/{file}", faults)
            modes.append(parse_partition_mode(raw) if raw else None)
        there = [*self._memory, *self._totals, *self._sensors, *self._limits, *self._levels]
        names = sorted({pinned.name for pinned in there} | ({"gpu_metrics"} if self._metrics else set()))
        return (*texts, *modes, tuple(names))

    # The bottom: one read, and what its failure means

    def _values(self, files: list[Pinned], names: tuple[str, ...], faults: Faults) -> tuple[int | None, ...]:
        found = self._numbers(files, faults)
        return tuple(found.get(name) for name in names)  # type: ignore[misc]  # scale 1 keeps them whole numbers

    def _numbers(self, files: list[Pinned], faults: Faults) -> dict[str, float | None]:
        """The number in each file, in base units."""
        found: dict[str, float | None] = {}
        pread = os.pread
        for file in files:
            descriptor, size, name, scale, low, high, zero_is_absent, path = file
            try:
                value = parse_number(pread(descriptor, size, 0), low, high)
            except OSError as error:
                self._failed(error, file, faults)
                found[name] = None
            except ParseError as error:
                faults.append((name, error.errno, path))
                found[name] = None
            else:
                found[name] = None if zero_is_absent and not value else value if scale == 1 else value * scale
        return found

    def _pread(self, file: Pinned, faults: Faults) -> bytes | None:
        try:
            return os.pread(file.descriptor, file.size, 0)
        except OSError as error:
            self._failed(error, file, faults)
            return None

    def _failed(self, error: OSError, file: Pinned, faults: Faults) -> None:
        if error.errno in GONE:
            raise _Gone from error
        if error.errno not in ABSENT:
            faults.append((file.name, errno_name(error.errno), file.path))

    def _small(self, path: str, faults: Faults | None = None) -> bytes:
        """A text that is read once in a while; empty when it is not there."""
        try:
            return read_file(self._root + path)
        except OSError as error:
            if faults is not None and error.errno not in (errno.ENOENT, errno.ENOTDIR, *ABSENT):
                faults.append((os.path.basename(path), errno_name(error.errno), path))
            return b""

    def _text(self, file: str, faults: Faults) -> str | None:
        return parse_text(self._small(f"{self._device}/{file}", faults))
