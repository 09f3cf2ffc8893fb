"""The open files of one GPU, and what they say.

`mem_info_*` are plain memory of the driver and are read in any state. What may touch the card's management controller
is read only after `power/runtime_status` said that the card is awake. The table of free blocks lies in debugfs and is
opened for each read, as a kept descriptor there would block a reload of the driver.

The files that are opened are those named in `kernel/`, in sensor_files.py and here, and no others: some in the same
folders reset the GPU when read.
"""

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from rocmwatch.errors import ParseError
from rocmwatch.kernel.buddy import parse_buddy
from rocmwatch.kernel.drm import minor_of, parse_uevent
from rocmwatch.kernel.memory import MEMORY as MEMORY_FILES
from rocmwatch.kernel.number import parse_number, parse_text
from rocmwatch.kernel.partition import parse_partition_mode
from rocmwatch.kernel.runtime_pm import may_read_sensors, parse_runtime_status
from rocmwatch.observe.discovery import CLASS_DRM, DEBUGFS_DRI, NODES_FOLDER
from rocmwatch.observe.files import GONE, REFUSED, Faults, Folder, Gone, Numbers, Pinned, errno_name
from rocmwatch.observe.rare_files import RareFiles
from rocmwatch.observe.sensor_files import SensorFiles, SensorReading
from rocmwatch.observe.wire import (
    FRAGMENTATION,
    MEMORY,
    MEMORY_FIELDS,
    NO_PERMISSION,
    NO_TABLE,
    RAS,
    SENSOR_FIELDS,
    SENSORS,
    SLOW,
    TOTAL_FIELDS,
    Description,
    GpuFrame,
    Order,
    Table,
)

TABLE_BYTES = 1 << 20
_GONE = frozenset(map(errno_name, GONE))
_USED_HIGH = 1 << 50
_NUMA_HIGH = 1 << 15
_UNASKED = SensorReading(None)
_UNREAD = SensorReading((None,) * len(SENSOR_FIELDS))
_PARTITION_USED = "partition_vram_used_bytes"
_Parsed = TypeVar("_Parsed")


class GpuFiles:
    """One GPU, opened."""

    def __init__(self, root: str, order: Order) -> None:
        """Opens what can be read in any state.

        Raises:
            Gone: When there is no such GPU under this name.
        """
        self._order = order
        self._root = root
        self._pci = order.subject
        self._device = f"{CLASS_DRM}/{order.card}/device"
        self._core = Folder(root, self._device, forgiving=False)
        self._texts = Folder(root, self._device, forgiving=True)
        self._topology = Folder(root, NODES_FOLDER, forgiving=True)
        self._rare = RareFiles(root, self._device)
        self._sensors: SensorFiles | None = None
        self._faults = Faults(SLOW)  # of opening; the next reading tells them
        try:
            self._check_identity(Faults(SLOW))  # `read` tells what is wrong with it
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes every file."""
        self._core.close()
        self._topology.close()
        if self._sensors is not None:
            self._sensors.close()

    def are_of(self, order: Order) -> bool:
        """Whether these are the files that an order means."""
        return order[2:] == self._order[2:]

    def read(self, what: int) -> GpuFrame:
        """What is wanted, as far as the card's state allows.

        Raises:
            Gone: When the driver says that the device is gone.
        """
        faults, self._faults = self._faults, Faults(SLOW)
        faults.about = MEMORY
        memory = self._read_numbers(self._memory, MEMORY_FIELDS, faults)
        partitions = tuple([self._used(banks, faults) for banks in self._banks]) if self._banks else ()
        faults.about = SENSORS if what & SENSORS else MEMORY
        asleep = self._is_asleep(faults)
        state, sensors = "suspended" if asleep else "active", _UNASKED
        if asleep is False:
            what |= self._open_sensors(faults)
            state, sensors = self._ask_firmware(what, faults)
        elif asleep is None and what & SENSORS:
            sensors = _UNREAD
        totals = limits = description = table = pcie = ras = None
        awake = asleep is False and state == "active"
        if what & SLOW:
            faults.about = SLOW
            totals = self._read_numbers(self._totals, TOTAL_FIELDS, faults)
            limits = self._sensors.read_limits(faults) if self._sensors and state == "active" else None
            pcie = self._rare.read_pcie(faults) if awake else None
            description = tuple(self._describe(faults))
            self._check_identity(faults)  # again: cardN may have changed hands between the check and an open
        if what & FRAGMENTATION:
            faults.about = FRAGMENTATION
            table = self._read_table(faults)
        if what & RAS and awake:
            faults.about = RAS
            ras = self._rare.read_errors(faults)
        return GpuFrame(
            state,
            what if awake else what & ~RAS,
            memory,
            partitions,
            sensors.values,
            sensors.xcc_clocks,
            sensors.metrics_format,
            totals,
            limits,
            table,
            description,
            tuple(faults.found),
            sensors.accumulated,
            sensors.accumulator_bits,
            sensors.throttle_status,
            sensors.links,
            sensors.partitions,
            pcie,
            ras,
        )

    def _open_sensors(self, faults: Faults) -> int:
        """Opens the sensors of a card that is awake for the first time. Returns what has to be read because of it."""
        if self._sensors is not None:
            return 0
        faults.about = SLOW
        self._sensors = SensorFiles(self._root, self._device, self._order.parts, faults)
        return SENSORS | SLOW

    def _ask_firmware(self, what: int, faults: Faults) -> tuple[str, SensorReading]:
        """The state of a card that was just seen awake, and its sensors when they are wanted."""
        if self._sensors is None or not what & SENSORS:
            return "active", _UNASKED
        faults.about = SENSORS
        reading = self._sensors.read(faults)
        if faults.found and reading.is_empty():
            errors = faults.of(SENSORS)
            if not _GONE.isdisjoint(errors):
                raise Gone("every sensor says so")
            if not REFUSED.isdisjoint(errors):
                if not self._is_asleep(faults):
                    return "resetting", reading
                faults.forget(SENSORS)  # it fell asleep meanwhile: Linux after 6.12 refuses rather than wake it
                return "suspended", _UNASKED
        return "active", reading

    def _is_asleep(self, faults: Faults) -> bool | None:
        """`None` when it cannot be told: in doubt, a card is left alone."""
        file = self._runtime_status
        if file is None:
            return False
        raw = self._core.read(file, faults)
        try:
            return None if raw is None else not may_read_sensors(parse_runtime_status(raw))
        except ParseError as error:
            faults.add(file.name, error.errno, file.path)
            return None

    def _read_numbers(self, numbers: Numbers, order: tuple[str, ...], faults: Faults) -> tuple[int | None, ...]:
        values: list[int | None] = [None] * len(order)
        numbers.read_into(values, faults)
        return tuple(values)

    def _used(self, banks: list[Pinned], faults: Faults) -> int | None:
        """What is used of one partition's memory."""
        total = 0
        for bank in banks:
            raw = self._topology.read(bank, faults)
            number = _parsed(bank.name, bank.path, raw, _used_bytes, faults)
            if number is None:
                return None
            total += number
        return total if banks else None

    def _read_table(self, faults: Faults) -> Table | str:
        why = NO_TABLE
        for folder in (
            self._pci,
            minor_of(self._order.card),
        ):  # by address since Linux 6.8, by the number of cardN before
            path = f"{DEBUGFS_DRI}/{folder}/amdgpu_vram_mm"
            try:
                table = parse_buddy(self._whole(path))
            except OSError as error:
                why = errno_name(error.errno)
                if why not in (NO_TABLE, NO_PERMISSION):
                    faults.add("fragmentation", why, path)
                    return why
            except ParseError as error:
                faults.add("fragmentation", error.errno, path)
                return error.errno
            else:
                return table.format, table.chunk_bytes, table.free_bytes, tuple(table.free_blocks.items())
        return why

    def _whole(self, path: str) -> bytes:
        """A file that may be longer than one read gives."""
        descriptor = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = b""
            while len(data) < TABLE_BYTES and (part := os.read(descriptor, TABLE_BYTES)):
                data += part
            return data
        finally:
            os.close(descriptor)

    def _describe(self, faults: Faults) -> Description:
        return Description(
            product=self._parsed("product_name", "product", parse_text, faults),
            device_id=self._parsed("device", "device_id", parse_text, faults),
            unique_id=self._parsed("unique_id", "unique_id", parse_text, faults),
            serial=self._parsed("serial_number", "serial", parse_text, faults),
            vbios=self._parsed("vbios_version", "vbios", parse_text, faults),
            numa_node=self._parsed("numa_node", "numa_node", _numa_node, faults),
            compute_partition=self._mode("compute_partition", faults),
            memory_partition=self._mode("memory_partition", faults),
            memory_names=(*self._memory.names, *self._totals.names, *self._core.closed),
            sensor_names=(*self._sensors.names(), *self._rare.names) if self._sensors else None,
        )

    def _mode(self, field: str, faults: Faults) -> str | None:
        return self._parsed(f"current_{field}", field, parse_partition_mode, faults)

    def _parsed(self, file: str, field: str, parse: Callable[[bytes], _Parsed], faults: Faults) -> _Parsed | None:
        raw = self._texts.text(file, field, faults)
        return _parsed(field, f"{self._device}/{file}", raw, parse, faults)

    # Opening

    def _check_identity(self, faults: Faults) -> None:
        """The number N of cardN may belong to another GPU by now."""
        before = len(faults.found)
        raw = self._core.text("uevent", "identity", faults)
        if raw is None and len(faults.found) == before:
            raise Gone("there is no such card")
        if raw is not None and parse_text(raw) is None:
            faults.add("identity", "ENODATA", f"{self._device}/uevent")
        address = parse_uevent(raw or b"").get("PCI_SLOT_NAME", "").lower()
        if address not in ("", self._pci):  # empty: it cannot be told at the moment
            raise Gone(f"{self._order.card} is {address} by now")

    def _open(self) -> None:
        self._memory, self._totals = (
            Numbers(self._core, list(self._pin(names)), names) for names in (MEMORY_FIELDS, TOTAL_FIELDS)
        )
        self._runtime_status = self._core.pin("power/runtime_status", "runtime_status", self._faults)
        self._banks = [list(self._pin_banks(f"{node}/mem_banks")) for node in self._order.nodes]

    def _pin(self, names: tuple[str, ...]) -> Iterator[Pinned]:
        for field in MEMORY_FILES:
            pinned = self._core.pin(field.file, field.name, self._faults) if field.name in names else None
            if pinned is not None:
                yield pinned._replace(low=field.low, high=field.high)

    def _pin_banks(self, folder: str) -> Iterator[Pinned]:
        for bank in self._topology.list(folder, _PARTITION_USED, self._faults):
            pinned = self._topology.pin(f"{folder}/{bank}/used_memory", _PARTITION_USED, self._faults)
            if pinned is not None:
                yield pinned


def _numa_node(raw: bytes) -> int:
    return parse_number(raw, -1, _NUMA_HIGH)


def _used_bytes(raw: bytes) -> int:
    return parse_number(raw, 0, _USED_HIGH)


def _parsed(
    field: str, path: str, raw: bytes | None, parse: Callable[[bytes], _Parsed], faults: Faults
) -> _Parsed | None:
    """What the bytes mean; `None`, and a fault, when they mean nothing."""
    try:
        return None if raw is None else parse(raw)
    except ParseError as error:
        faults.add(field, error.errno, path)
        return None
