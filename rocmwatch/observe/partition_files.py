"""How each partition of a card is doing: from a file of its own, or else from the whole card's gpu_metrics.

The files lie with the partitions' DRM devices, which have nothing else to read. Each read asks the card's firmware, so
they are opened with the other sensors, and of a partitioned card only.
"""

from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.gpu_metrics import Decoder
from rocmwatch.kernel.xcp_metrics import FILE, PartitionDecoder
from rocmwatch.observe.discovery import CLASS_DRM
from rocmwatch.observe.files import NOT_ON_THIS_CARD, TEXT_BYTES, Faults, Folder, Pinned
from rocmwatch.observe.wire import Part

_NAME = "partition_busy"
_NOTHING = (None, None)


class _Partition(NamedTuple):
    """One partition.

    Attributes:
        number: Its number within the GPU.
        dies: Its compute dies among all of the GPU.
        file: Its own file, where this kernel has one.
        decoder: For that.
    """

    number: int
    dies: slice
    file: Pinned | None
    decoder: PartitionDecoder


class PartitionFiles:
    """The open files of one card's partitions; without partitions there is nothing in it."""

    def __init__(self, root: str, parts: tuple[Part, ...]) -> None:
        self._folder = Folder(root, CLASS_DRM, forgiving=True, absent=NOT_ON_THIS_CARD)
        self._parts = parts
        self._partitions: list[_Partition] = []

    def open(self, faults: Faults) -> None:
        """Opens what there is."""
        first = 0
        for number, minor, dies in self._parts:
            file = self._folder.pin(f"renderD{minor}/device/{FILE}", _NAME, faults, TEXT_BYTES) if minor else None
            self._partitions.append(_Partition(number, slice(first, first + dies), file, PartitionDecoder()))
            first += dies

    def close(self) -> None:
        """Closes every file."""
        self._folder.close()

    def read(
        self, decoder: Decoder, raw: bytes, clocks: "tuple[float | None, ...]", faults: Faults
    ) -> "tuple[tuple[float | None, float | None], ...]":
        """Busy ratio and clock of each partition, in the order of the parts.

        Args:
            decoder: Has just decoded the card's gpu_metrics.
            raw: Their bytes; none when there are none, or they are no good.
            clocks: Hertz of each of the card's compute dies.
            faults: Where to say what failed.

        Raises:
            Gone: When a file says that the device is gone which did not say so when it was new.
        """
        if not self._partitions:
            return ()
        readings = [
            self._own(partition, partition.file, faults)
            if partition.file
            else (
                decoder.busy(raw, partition.number, partition.dies) if raw else None,
                max([clock for clock in clocks[partition.dies] if clock is not None], default=None),
            )
            for partition in self._partitions
        ]
        self._folder.forgiving = False
        return tuple(readings)

    def _own(self, partition: _Partition, file: Pinned, faults: Faults) -> "tuple[float | None, float | None]":
        raw = self._folder.read(file, faults)
        if raw is None:
            return _NOTHING
        try:
            busy, hertz = partition.decoder.decode(raw)
        except ParseError as error:
            faults.add(file.name, error.errno, file.path)
            return _NOTHING
        return busy, hertz  # a plain tuple, as it travels
