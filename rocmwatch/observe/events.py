"""What happened to one GPU since the daemon started, counted."""

from collections import Counter

from rocmwatch.model import GpuEvents, GpuState, frozen

_MOST_METHODS = 16  # the kernel knows five; a series for each is made of them


class EventCounts:
    """Counts what becomes another thing. A first sight is no event, and neither is what cannot be told."""

    def __init__(self) -> None:
        self._state: GpuState | None = None
        self._states = Counter(dict.fromkeys(GpuState, 0))
        self._wedged: Counter[str] = Counter()
        self._modes: tuple[str | None, str | None] = (None, None)
        self._partitions = 0
        self._partition_changes = 0
        self._published: GpuEvents | None = None

    def entered(self, state: GpuState) -> None:
        """The GPU is in this state, be it the one that it was in."""
        if self._state not in (None, state):
            self._states[state] += 1
            self._published = None
        self._state = state

    def wedged(self, method: str) -> None:
        """The kernel announced a device that hung, and how it comes back."""
        if method in self._wedged or len(self._wedged) < _MOST_METHODS:
            self._wedged[method] += 1
            self._published = None

    def partitioned(self, compute: str | None, memory: str | None, partitions: int) -> None:
        """The GPU is divided so.

        The mode is what counts where the driver tells it, and the number of partitions elsewhere: they do not change
        in the same moment, and are one change.

        Args:
            compute: Mode of its compute partitions, `None` when it cannot be read.
            memory: The same of its memory.
            partitions: How many nodes the compute driver lists; 0 in the middle of a change.
        """
        modes = (compute or self._modes[0], memory or self._modes[1])
        changed = any(old not in (None, new) for old, new in zip(self._modes, modes, strict=True))
        if modes == (None, None):
            changed = 0 not in (self._partitions, partitions) and partitions != self._partitions
        if changed:
            self._partition_changes += 1
            self._published = None
        self._modes = modes
        self._partitions = partitions or self._partitions

    def published(self) -> GpuEvents:
        """The counts, as they are in a picture."""
        if self._published is None:
            self._published = GpuEvents(
                states=frozen(self._states),
                wedged=frozen(self._wedged),
                partition_changes=self._partition_changes,
            )
        return self._published
