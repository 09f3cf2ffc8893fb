"""Kernel files, as a reader uses them: open once, read many times, and say what failed.

A file's descriptor is kept and read anew with `pread`: the driver answers each read afresh, and opening costs fifteen
times as much. A file that is not there is absence and no fault; everything else that goes wrong is one.
"""

import errno
import os
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import parse_number
from rocmwatch.observe.wire import FaultTuple

NUMBER_BYTES = 64
TEXT_BYTES = 4096  # what the driver answers at most in one read
SMALL_FILE_BYTES = 16384
MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
GONE = frozenset({errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN})
REFUSED = frozenset({"EPERM", "EBUSY"})  # a reset is under way: EPERM to Linux 6.12, EBUSY later
NOT_ON_THIS_CARD = frozenset({errno.EOPNOTSUPP, errno.EINVAL})  # what a driver says of a sensor, at each read
_NOT_IN_PYTHON = {133: "EHWPOISON"}  # up to 3.13

_START = repeat(0)


def errno_name(number: int | None) -> str:
    """`EIO` for 5; the number itself where it has no name."""
    known = number or 0
    return errno.errorcode.get(known) or _NOT_IN_PYTHON.get(known) or f"E{known}"


def read_file(path: str) -> bytes:
    """The whole of a small file, in one read.

    Raises:
        OSError: As open and read do.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, SMALL_FILE_BYTES)
    finally:
        os.close(descriptor)


class Gone(Exception):
    """The driver says that the device is not there any more, or it is another one by now."""


class Faults:
    """What failed so far in one reading.

    Attributes:
        about: What is being read at the moment, a bit of an order's.
        found: The faults.
    """

    def __init__(self, about: int) -> None:
        self.about = about
        self.found: list[FaultTuple] = []

    def add(self, source: str, name: str, path: str) -> None:
        """One more."""
        self.found.append((self.about, source, name, path))

    def forget(self, about: int) -> None:
        """Takes back those of one kind of reading."""
        self.found = [fault for fault in self.found if fault[0] != about]

    def of(self, about: int) -> list[str]:
        """The names of the errors of one kind of reading."""
        return [name for kind, _, name, _ in self.found if kind == about]


class Pinned(NamedTuple):
    """An open file and what its number means.

    Attributes:
        name: Of the value in the frame.
        path: Below the root.
        scale: From the kernel's unit to the base unit.
        low: The smallest number that can be true, in the kernel's unit.
        high: The largest one.
        zero_is_absent: Whether 0 stands for "no such sensor here".
    """

    descriptor: int
    size: int
    name: str
    path: str
    scale: float = 1
    low: int = 0
    high: int = 2**64 - 1
    zero_is_absent: bool = False


class Folder:
    """A folder whose files stay open until it is closed.

    Attributes:
        path: The folder, below the root.
        forgiving: Whether a file that says that the device is gone is just a file that failed.
        closed: The names of what has a file that could not be opened.
    """

    def __init__(self, root: str, path: str, *, forgiving: bool, absent: Collection[int] = ()) -> None:
        """Opens nothing yet.

        Args:
            root: Prefix of all paths.
            path: See above.
            forgiving: See above.
            absent: Errors that say that this card has no such thing.
        """
        self.path = path
        self.forgiving = forgiving
        self.closed: list[str] = []
        self._root = root
        self._absent = absent
        self._descriptors: list[int] = []

    def close(self) -> None:
        """Closes every file."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def pin(self, file: str, name: str, faults: Faults, size: int = NUMBER_BYTES) -> Pinned | None:
        """Opens a file; `None` when there is none, or it cannot be opened.

        Raises:
            Gone: As `failed` does.
        """
        path = f"{self.path}/{file}"
        try:
            descriptor = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in MISSING and self.failed(error, name, path, faults):
                self.closed.append(name)
            return None
        self._descriptors.append(descriptor)
        return Pinned(descriptor, size, name, path)

    def text(self, file: str, name: str, faults: Faults) -> bytes | None:
        """The bytes of a small file that is not kept open; `None` when there is none, or it cannot be read.

        Raises:
            Gone: As `failed` does.
        """
        path = f"{self.path}/{file}"
        try:
            return read_file(self._root + path)
        except OSError as error:
            if error.errno not in MISSING:
                self.failed(error, name, path, faults)
            return None

    def list(self, folder: str, name: str, faults: Faults) -> list[str]:
        """The names in a folder below this one; none when it cannot be listed."""
        path = f"{self.path}/{folder}"
        try:
            return sorted(os.listdir(self._root + path))
        except OSError as error:
            if error.errno not in MISSING:
                self.failed(error, name, path, faults)
            return []

    def read(self, file: Pinned, faults: Faults) -> bytes | None:
        """The bytes of an open file.

        Raises:
            Gone: As `failed` does.
        """
        try:
            return os.pread(file.descriptor, file.size, 0)
        except OSError as error:
            self.failed(error, file.name, file.path, faults)
            return None

    def failed(self, error: OSError, name: str, path: str, faults: Faults) -> bool:
        """Says what an error means. Returns whether it is a fault.

        Raises:
            Gone: When it means that the device is gone.
        """
        if error.errno in GONE and not self.forgiving:
            raise Gone from error
        if error.errno in self._absent:
            return False
        faults.add(name, errno_name(error.errno), path)
        return True


class Numbers:
    """Files of one number each, that are read together: the hot path.

    Attributes:
        names: What the files are of.
    """

    def __init__(self, folder: Folder, files: Sequence[Pinned], order: Sequence[str]) -> None:
        """Keeps what is needed for a tick at hand.

        Args:
            folder: Where they were opened.
            files: Open files.
            order: The names of the values, in the order in which they are wanted.
        """
        self.names = tuple(file.name for file in files)
        self._folder = folder
        self._descriptors = [file.descriptor for file in files]
        self._sizes = [file.size for file in files]
        self._meanings = [
            (order.index(file.name), round(1 / file.scale), file.low, file.high, file.zero_is_absent, file)
            for file in files
        ]

    def read_into(self, values: list[Any], faults: Faults) -> None:
        """Puts the numbers in their places, in base units.

        Args:
            values: In the order that was given. A number that cannot be had becomes `None`; what the card has not stays
                as it was.
            faults: Where to say what failed.

        Raises:
            Gone: When the driver says that the device is gone.
        """
        raws: list[bytes | None] = []
        while len(raws) < len(self._descriptors):  # at once, unless one fails: those before it are kept
            begin = len(raws)
            try:
                raws.extend(map(os.pread, self._descriptors[begin:], self._sizes[begin:], _START))
            except OSError as error:
                at, *_, file = self._meanings[len(raws)]
                if self._folder.failed(error, file.name, file.path, faults):
                    values[at] = None
                raws.append(None)
        for raw, (at, divisor, low, high, zero_is_absent, file) in zip(raws, self._meanings, strict=True):
            if raw is None:
                continue
            try:
                value = parse_number(raw, low, high)
            except ParseError as error:
                faults.add(file.name, error.errno, file.path)
                values[at] = None
                continue
            if value or not zero_is_absent:
                values[at] = value if divisor == 1 else value / divisor  # exact where a product is not: 41.045 W
