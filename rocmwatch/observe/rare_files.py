"""What is read seldom, and of a card that is awake only: its link to the host, and the hardware's own errors.

Newer kernels wake a sleeping card to read its link. A count of errors makes the driver ask the hardware. Both are
opened for each read: once a minute, and once in five minutes. The folder of the errors has other files, too; only those
that `kernel.ras.block_of` knows are opened.
"""

from collections.abc import Callable
from typing import Any

from rocmwatch.errors import ParseError
from rocmwatch.kernel.pcie import (
    CURRENT_SPEED,
    CURRENT_WIDTH,
    MAX_SPEED,
    MAX_WIDTH,
    REPLAYS,
    parse_link_speed,
    parse_link_width,
    parse_replays,
)
from rocmwatch.kernel.ras import FOLDER, block_of, parse_error_counts
from rocmwatch.observe.files import NOT_ON_THIS_CARD, Faults, Folder
from rocmwatch.observe.wire import PCIE_FIELDS, ErrorTuple, LinkTuple

_Parse = Callable[[bytes], "float | None"]
_PCIE: "tuple[tuple[str, _Parse], ...]" = (  # in the order of PCIE_FIELDS
    (CURRENT_WIDTH, parse_link_width),
    (MAX_WIDTH, parse_link_width),
    (CURRENT_SPEED, parse_link_speed),
    (MAX_SPEED, parse_link_speed),
    (REPLAYS, parse_replays),
)
_REFUSED = "EBUSY"  # what `Query currently inaccessible` says in words
_RAS = "ras"


class RareFiles:
    """The files of one card that are opened for each read.

    Attributes:
        names: The fields of the link that have a file, as of the last read.
    """

    def __init__(self, root: str, device: str) -> None:
        self.names: tuple[str, ...] = ()
        self._link = Folder(root, device, forgiving=True, absent=NOT_ON_THIS_CARD)
        self._device = Folder(root, device, forgiving=True)

    def read_pcie(self, faults: Faults) -> LinkTuple:
        """The link to the host, in the order of PCIE_FIELDS."""
        values: list[Any] = []
        names = []
        for field, (file, parse) in zip(PCIE_FIELDS, _PCIE, strict=True):
            before = len(faults.found)
            raw = self._link.text(file, field, faults)
            value = None
            try:
                value = None if raw is None else parse(raw)
            except ParseError as error:
                faults.add(field, error.errno, f"{self._link.path}/{file}")
            values.append(value)
            if raw is not None or len(faults.found) > before:
                names.append(field)
        self.names = tuple(names)
        width, max_width, speed, max_speed, replays = values
        return width, max_width, speed, max_speed, replays

    def read_errors(self, faults: Faults) -> "tuple[ErrorTuple, ...] | None":
        """What each block counted, blocks that could not be read left out.

        Returns:
            Nothing for a card that does not count; `None` when it cannot be asked just now: that is said once, and not
            for each block.
        """
        before = len(faults.found)
        files = self._device.list(FOLDER, _RAS, faults)
        if len(faults.found) > before:
            return None
        found = []
        for file in files:
            block = block_of(file)
            if block is None:
                continue
            path = f"{FOLDER}/{file}"
            raw = self._device.text(path, f"{_RAS}_{block}", faults)
            if raw is None:
                continue
            try:
                counts = parse_error_counts(raw)
            except ParseError as error:
                faults.add(f"{_RAS}_{block}", error.errno, f"{self._device.path}/{path}")
                continue
            if counts is None:
                faults.add(_RAS, _REFUSED, f"{self._device.path}/{path}")
                return None
            found.append((block, *counts))
        return tuple(found)
