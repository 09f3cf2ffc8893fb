"""What one line of the metric table is."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from prometheus_client.metrics_core import Metric as Family

from rocmwatch.model import View
from rocmwatch.serve.series import Getter

_PREFIX = "rocmwatch_"
_UNITS = ("bytes", "celsius", "hertz", "joules", "ratio", "seconds", "watts")
GPU = ("gpu", "pci")  # the labels of everything about a GPU


class Kind(str, Enum):
    """What the values of a family do."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"  # always 1, the labels are what it says
    STATESET = "stateset"  # 1 for the state that holds, 0 for the others, by the label `state`


# OpenMetrics wants a stateset's label to be named like its family; ours is called `state` (docs/adr/0010)
_EXPOSED_AS = {Kind.STATESET: "gauge"}


class Metric(NamedTuple):
    """One family.

    Attributes:
        name: As it is queried, less the prefix; a counter's ends in `_total`, an info's in `_info`.
        labels: Every label that a series of it can carry.
        getter: From a view, and the moment of the scrape, to its series.
        at_scrape: True where values move between two snapshots: these few are rendered for every scrape.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    getter: Getter
    at_scrape: bool = False

    @property
    def full_name(self) -> str:
        """The name as it is queried."""
        return _PREFIX + self.name

    @property
    def family_name(self) -> str:
        """The name that HELP and TYPE carry in OpenMetrics: without the suffix of its kind."""
        name = self.full_name
        if self.kind is Kind.COUNTER:
            return name.removesuffix("_total")
        return name.removesuffix("_info") if self.kind is Kind.INFO else name

    @property
    def unit(self) -> str:
        """The base unit that its name ends in; empty for counts, infos and states."""
        last = self.family_name.rpartition("_")[2]
        return last if last in _UNITS else ""

    def family(self, view: View, now: float) -> Family:
        """Its series as a family of prometheus-client."""
        family = Family(self.family_name, self.help, _EXPOSED_AS.get(self.kind, self.kind.value), self.unit)
        name, add = self.full_name, family.add_sample
        for labels, value in self.getter(view, now):
            add(name, labels, value)
        return family
