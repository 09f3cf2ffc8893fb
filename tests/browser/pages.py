"""Nodes that a page has to stand: eight partitioned GPUs after an hour, one in each state, and one of hostile names."""

from __future__ import annotations

import math
from dataclasses import replace

from unit.serve import views

from rocmwatch.judge.trends import POINTS, Trends
from rocmwatch.model import Fault, GpuReading, GpuSample, View, frozen


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


def healthy(number: int) -> GpuReading:
    """A GPU that nothing is to be said of."""
    reading = views.reading(number, ras_errors=frozen({}))
    assert reading.sample is not None
    return replace(reading, sample=replace(reading.sample, throttled=frozen({"power": 0})))


def troubled() -> View:
    """One hot and narrow, one that was not read for long, one that says everything is wrong."""
    sample = views.sample(temperatures_celsius=frozen({"junction": 99.0, "edge": 70.0, "memory": 88.0}))
    hot = views.reading(0, sample=sample, pcie=replace(views.LINK, width=4))
    old = views.reading(1, sampled_at=views.NOW - 500)
    everything = views.mi300x_cpx(2)
    assert everything.sample is not None
    reasons = ("prochot", "power", "socket_thermal", "vr_thermal", "hbm_thermal")
    held = replace(everything.sample, throttle_ratio=frozen(dict.fromkeys(reasons, 1.0)))
    blocks = frozen({(block, "uncorrectable"): 10**6 for block in ("umc", "sdma", "gfx", "mmhub", "xgmi_wafl")})
    return lived(views.view(hot, old, replace(everything, sample=held, ras_errors=blocks)))


def long_names() -> View:
    """Names of the greatest length that is let in, without a place to break them."""
    long = "W" * 256
    gpu = views.gpu(0, product=long, compute_partition=long, memory_partition=long)
    fault = Fault(source=long, errno=long, path=f"/{long}")
    reading = views.reading(0, gpu=gpu, faults=(fault,), ras_errors=frozen({(long, "uncorrectable"): 10**18}))
    view = lived(views.view(reading, notes=(long,), driver_version=long))
    return replace(view, hostname=long, root=f"/{long}", version=long)


PAGES = {
    "healthy": lambda: lived(views.view(healthy(0), healthy(1))),
    "troubled": troubled,
    "long_names": long_names,
    "partitioned": partitioned,
    "every_state": lambda: lived(views.every_state()),
    "hostile": lambda: lived(views.hostile()),
    "no_gpu": views.view,
}
