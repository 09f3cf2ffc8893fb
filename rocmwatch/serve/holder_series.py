"""From a view to the series of the holders: bounded, gone with what they describe, and never a pid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rocmwatch.model import Attribution, Balance, HolderClass, View
from rocmwatch.serve.series import Getter, Labels, Series
from rocmwatch.serve.wording import printable

MOST_OWNERS = 50  # of the largest; each is a series for each place that it holds


def _places(view: View) -> dict[str, Labels]:
    return {reading.gpu.pci: {"gpu": reading.gpu.gpu, "pci": reading.gpu.pci} for reading in view.snapshot.gpus}


def holders(view: View, _now: float) -> Iterator[Series]:
    """For each GPU how many holders of each class it has."""
    if view.holdings is None:
        return
    counts = Counter(
        (pci, holder.holder_class)
        for holder in view.holdings.holders
        for pci in {use.pci for use in holder.process.uses}
    )
    for pci, place in _places(view).items():
        for holder_class in HolderClass:
            yield {**place, "class": holder_class.value}, counts[pci, holder_class]


def balance(value_of: Callable[[Balance], int | None]) -> Getter:
    """One series a GPU, of its balance."""

    def getter(view: View, _now: float) -> Iterator[Series]:
        places = _places(view)
        for one in view.holdings.balances if view.holdings else ():
            value = value_of(one)
            if value is not None and one.pci in places:
                yield places[one.pci], value

    return getter


def owner_bytes(view: View, _now: float) -> Iterator[Series]:
    """For the largest owners what they hold of each place."""
    if view.holdings is None:
        return
    places = _places(view)
    sums: Counter[tuple[str, str, str, str | None]] = Counter()
    for holder in view.holdings.holders:
        for held in holder.held:
            name = printable(holder.owner.name) if holder.owner.name else ""
            sums[holder.owner.kind.value, name, held.pci, held.partition] += held.bytes
    for (kind, name, pci, partition), size in sums.most_common(MOST_OWNERS):
        if pci in places:
            part = {} if partition is None else {"partition": partition}
            yield {"kind": kind, "owner": name, **places[pci], **part}, size


def attribution(view: View, _now: float) -> Iterator[Series]:
    """A 1 for how far the holders explain the memory in use."""
    if view.holdings is not None:
        for state in Attribution:
            yield {"state": state.value}, int(view.holdings.attribution is state)
