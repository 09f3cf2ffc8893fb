"""Starts cloop.c on the files that our reader reads."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from measure import Bench, Unmeasured, need

from rocmwatch.kernel.gpu_metrics_layouts import LAYOUTS, WIDTHS

FIELDS = 20
_SOURCE = Path(__file__).with_name("cloop.c")


class Read(NamedTuple):
    """One read of a tick: which file, and for how many bytes it asks."""

    path: str
    size: int


def picked_fields(raw: bytes) -> list[tuple[int, int]]:
    """(offset, width) of about 20 numbers of a gpu_metrics file, from its start: temperatures, power, clocks."""
    _, form, content = struct.unpack_from("<HBB", raw)
    places = [
        (field.offset + place * WIDTHS[field.fmt], WIDTHS[field.fmt])
        for field in LAYOUTS[form, content]
        for place in range(field.count)
        if "activity[" not in field.name
    ]
    step = max(1, len(places) // FIELDS)
    return places[::step][:FIELDS]


def counter_offset(raw: bytes) -> int:
    """Where the time stamp is that the firmware moves on between two readings."""
    _, form, content = struct.unpack_from("<HBB", raw)
    fields = {field.name: field.offset for field in LAYOUTS[form, content]}
    return fields["system_clock_counter"]


class CLoop:
    """The compiled loop, running and waiting for orders."""

    def __init__(self, bench: Bench, reads: Iterable[Read]) -> None:
        lines = []
        fields: list[tuple[int, int]] = []
        for read in reads:
            name = Path(read.path).name
            if name == "gpu_metrics":
                raw = Path(read.path).read_bytes()
                fields = picked_fields(raw)
                lines.append(f"m {read.size} {counter_offset(raw)} {read.path}")
            else:
                kind = "t" if name.startswith("pp_dpm_") or name == "runtime_status" else "n"
                lines.append(f"{kind} {read.size} {read.path}")
        lines += [f"f {offset} {width}" for offset, width in fields]
        listing = bench.folder / f"files-{id(self)}"
        listing.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(bench.once("cloop", lambda: compiled(bench))), str(listing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> CLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)

    def start(self, ticks: int, pause_us: int, *, decode: bool) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{ticks} {pause_us} {int(decode)}\n")
        self._process.stdin.flush()

    def finish(self) -> list[float]:
        """Microseconds of CPU of each tick of the last order."""
        assert self._process.stdout is not None
        return [int(word) / 1000 for word in self._process.stdout.readline().split()]

    def ticks(self, ticks: int, pause_us: int, *, decode: bool) -> list[float]:
        self.start(ticks, pause_us, decode=decode)
        return self.finish()


def compiled(bench: Bench) -> Path:
    need("gcc")
    program = bench.folder / "cloop"
    done = subprocess.run(
        ["gcc", "-O2", "-Wall", "-o", str(program), str(_SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unmeasured(f"gcc: {done.stderr.strip()}")
    return program
