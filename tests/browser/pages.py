"""Nodes that a page has to stand: eight partitioned GPUs after an hour, one in each state, and one of hostile names."""

from __future__ import annotations

import math
from dataclasses import replace

from unit.serve import views

from rocmwatch.judge.trends import POINTS, Trends
from rocmwatch.model import GpuReading, GpuSample, View, frozen


def lived(view: View) -> View:
    """The same node after an hour in which its values moved."""
    trends = Trends()
    last = view.trends
    for step in range(POINTS):
        gpus = tuple(_moved(reading, step) for reading in view.snapshot.gpus)
        now = views.NOW - 5.0 * (POINTS - step)
        last = trends.take(replace(view.snapshot, gpus=gpus), now, now, 5.0)
    return replace(view, trends=last)


def _moved(reading: GpuReading, step: int) -> GpuReading:
    sample = reading.sample
    if sample is None or 200 < step < 240:  # it could not be read for a while
        return replace(reading, sample=None)
    wave = 0.75 + 0.25 * math.sin(step / 40 + len(reading.gpu.pci) + int(reading.gpu.gpu))
    moved: GpuSample = replace(
        sample,
        vram_used_bytes=None if sample.vram_used_bytes is None else int(sample.vram_used_bytes * wave),
        power_watts=None if sample.power_watts is None else sample.power_watts * wave,
        temperatures_celsius=frozen({name: value * wave for name, value in sample.temperatures_celsius.items()}),
        clocks_hertz=frozen({name: value * wave for name, value in sample.clocks_hertz.items()}),
        busy_ratio=frozen({name: value * wave for name, value in sample.busy_ratio.items()}),
    )
    return replace(reading, sample=moved)


def partitioned() -> View:
    """Eight MI300X in CPX; the driver ran out of device numbers at the last: 63 partitions."""
    gpus = [views.mi300x_cpx(number) for number in range(8)]
    gpus[-1] = replace(gpus[-1], gpu=replace(gpus[-1].gpu, partitions=gpus[-1].gpu.partitions[:7]))
    return lived(views.view(*gpus))


PAGES = {
    "healthy": lambda: lived(views.view(views.reading(0), views.reading(1))),
    "partitioned": partitioned,
    "every_state": lambda: lived(views.every_state()),
    "hostile": lambda: lived(views.hostile()),
    "no_gpu": views.view,
}
