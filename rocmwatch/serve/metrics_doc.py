"""docs/metrics.md, written from the metric table: `python -m rocmwatch.serve.metrics_doc > docs/metrics.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rocmwatch.serve.metrics import METRICS, Kind

_HEAD = """\
# Metrics

<!-- Written by `python -m rocmwatch.serve.metrics_doc` from rocmwatch/serve/metrics/: edit that. -->

`GET /metrics` answers in Prometheus' text format, or in OpenMetrics 1.0.0 where the client asks for it.

- Units are base units, and the name says which. `_total` is on counters and only there.
- A series is there when its value is known, and gone when it is not. Nothing unknown is ever 0.
- `gpu` is the ordinal of a GPU (PCI order at first sight, kept for the boot), `pci` its address and identity.
- `gpu_*` are of whole GPUs. What is known of a compute partition is in `gpu_partition_*`, with the label `partition`.
- A stalled or lost GPU keeps `gpu_info`, `gpu_state`, `field_supported` and the counts of what happened to it
  (`gpu_state_changes_total`, `gpu_wedged_events_total`, `gpu_partition_changes_total`), and has nothing else.
- A scrape never touches hardware: it shows the last reading, whose age is `rocmwatch_sample_age_seconds`.

"""
_KINDS = {
    Kind.GAUGE: "gauge",
    Kind.COUNTER: "counter",
    Kind.INFO: "info (a gauge that is always 1)",
    Kind.STATESET: "state set (a gauge of 1 or 0 for each state)",
}


def _lines() -> Iterator[str]:
    yield _HEAD
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
        yield f"## {metric.full_name}\n\n{_KINDS[metric.kind]}; labels: {labels}\n\n{metric.help}\n\n"


def document() -> str:
    """The text of docs/metrics.md."""
    return "".join(_lines()).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
