"""What the amdsmi backend costs beside the files, on the same tree. For information: no bar.

The Python wrapper is the real one from PyPI. The library is our small one (tests/amdsmi_backend/stub), which opens a
file or two a call. AMD's own does more: nine calls to each of eight GPUs were measured at 10 to 14 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from measure import Bench, Figure, cpu_nanoseconds, median, need
from trees import GPUS, tree

NAME = "amdsmi"
TITLE = "the amdsmi backend against the files"


def measure(bench: Bench) -> Iterator[Figure]:
    need("gcc")
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    from rocm import Pair, Rocm, build, children_of_role
    from watching import PACE

    root = tree(bench, "mi300x")
    folder = bench.folder / "libamd_smi"
    folder.mkdir()
    installed = Rocm(bench.folder / "rocm", build(folder))
    installed.tell(root=root)
    os.environ["ROCM_PATH"] = str(installed.path)
    try:
        with closing(Pair(root, pace=PACE._replace(memory=1.0, sensors=1.0))) as pair:
            notes = [pair.tick(1).notes for _ in range(3)][-1]
            if notes:
                raise RuntimeError(notes[0])
            pids = [children_of_role(pair.launcher.pid, name)[0] for name in ("rw-amdsmi", "rw-sensors")]
            passes: list[list[float]] = [[], []]
            for _ in range(bench.pick(500, 50)):
                before = [cpu_nanoseconds([pid]) for pid in pids]
                pair.tick(1)
                for at, pid in enumerate(pids):
                    passes[at].append((cpu_nanoseconds([pid]) - before[at]) / 1000)
    finally:
        del os.environ["ROCM_PATH"]
    theirs, files = map(median, passes)
    yield Figure(
        NAME,
        f"a pass over {GPUS} MI300X: CPU of the amdsmi reader / of the sensors reader",
        theirs / files,
        None,
        note=f"{theirs:.0f} us against {files:.0f} us; the real wrapper, but our small library: AMD's own does more",
    )
