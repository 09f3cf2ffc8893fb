"""What rocmwatch costs, as one table: `make bench`.

Every row is a ratio to a C loop or to a peer that is measured in the same run; medians; absolute times are information.
Ends with 1 when a bar is missed, a row is broken, or a row that ROCMWATCH_REQUIRE names (or `all`) is not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import textwrap
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from measure import Bench, Figure, Unmeasured, working_folder
from rows import amdsmi, footprint, leaks, page, peers_exporter, peers_smi, reading, startup, syscalls, tick

ROWS = (reading, tick, syscalls, peers_smi, peers_exporter, page, footprint, startup, leaks, amdsmi)
REPOSITORY = Path(__file__).resolve().parent.parent
NOTE_WIDTH = 150
SLACK = 3.0  # of --quick
BUSY = 0.3


class Results(NamedTuple):
    """What came of it: figures, and by row why there are none."""

    figures: list[Figure]
    unmeasured: dict[str, str]
    broken: dict[str, str]


def shown(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return text + (unit if unit in ("x", "%") else f" {unit}" if unit else "")


def line(figure: Figure) -> str:
    bar = "-" if figure.bar is None else f"{'>=' if figure.at_least else '<='} {shown(figure.bar, figure.unit)}"
    verdict = "" if figure.bar is None else "ok" if figure.reached() else "MISSED"
    return f"{figure.row:<10} {figure.what:<72} {shown(figure.value, figure.unit):>10} {bar:>12}  {verdict}"


def measure(bench: Bench, only: set[str]) -> Results:
    figures: list[Figure] = []
    unmeasured: dict[str, str] = {}
    broken: dict[str, str] = {}
    print(f"{'row':<10} {'what':<72} {'median':>10} {'bar':>12}")
    for row in ROWS:
        if only and row.NAME not in only:
            continue
        try:
            for figure in row.measure(bench):
                figures.append(figure)
                print(line(figure))
                for part in textwrap.wrap(figure.note, NOTE_WIDTH):
                    print(f"{'':<10}   {part}")
        except Unmeasured as reason:
            unmeasured[row.NAME] = str(reason)
            print(f"{row.NAME:<10} NOT MEASURED ({row.TITLE}): {reason}")
        except Exception as error:  # noqa: BLE001  # the other rows are worth knowing all the same
            broken[row.NAME] = repr(error)
            print(f"{row.NAME:<10} BROKEN ({row.TITLE})\n{traceback.format_exc()}")
        sys.stdout.flush()
    return Results(figures, unmeasured, broken)


def main() -> int:
    names = [row.NAME for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions, and bars three times as wide")
    parser.add_argument("--only", action="append", default=[], metavar="ROW", choices=names, help=", ".join(names))
    parser.add_argument("--json", default=str(REPOSITORY / "build" / "bench.json"), metavar="PATH")
    arguments = parser.parse_args()

    started = time.monotonic()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > BUSY:
        print(f"this machine is busy (load {load:.1f} a CPU): what is measured in Python suffers more from that than C")
    with working_folder() as folder:
        figures, unmeasured, broken = measure(Bench(arguments.quick, folder), set(arguments.only))
    missed = [figure for figure in figures if not figure.reached(SLACK if arguments.quick else 1)]
    required = set(os.environ.get("ROCMWATCH_REQUIRE", "").split(","))
    lost = [name for name in unmeasured if name in required or "all" in required]

    document = {
        "schema": "rocmwatch/bench/1",
        "quick": arguments.quick,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load": load,
        "figures": [asdict(figure) | {"reached": figure.reached()} for figure in figures],
        "unmeasured": unmeasured,
        "broken": broken,
    }
    path = Path(arguments.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    bars = sum(figure.bar is not None for figure in figures)
    seconds = time.monotonic() - started
    slack = f" with a slack of {SLACK:g}" if arguments.quick else ""
    reached = f"{bars - len(missed)} of {bars} bars reached{slack}"
    print(f"{reached}, {len(unmeasured)} rows not measured, {len(broken)} broken, {seconds:.0f} s: {path}")
    return 1 if lost or missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
