"""The metric table: every family that rocmwatch exports, declared once, one module a subject.

`docs/metrics.md` is generated from it (`python -m rocmwatch.serve.metrics_doc`). HELP is written for the person on
call: what a value means, when the series is absent, what to hold it against.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from rocmwatch.model import View
from rocmwatch.serve.metrics import hardware, holders, identity, memory, service
from rocmwatch.serve.metrics.metric import Kind, Metric

__all__ = ["METRICS", "Kind", "Metric", "families"]

METRICS: tuple[Metric, ...] = (
    *identity.METRICS,
    *memory.METRICS,
    *holders.METRICS,
    *hardware.METRICS,
    *service.METRICS,
)


def families(view: View, now: float, *, at_scrape: bool) -> Iterator[Family]:
    """The families that have series: those that wait for the snapshot only, or those that move between two.

    Args:
        view: What is published.
        now: Unix seconds of the scrape; the families of a snapshot do not look at it.
        at_scrape: Which of the two.
    """
    for metric in METRICS:
        if metric.at_scrape == at_scrape:
            family = metric.family(view, now)
            if family.samples:
                yield family
