"""d) One tick against one call of the distribution's rocm-smi, on the same tree.

It is rocm-smi 5.2 on Debian 12: it knows gpu_metrics up to 1.3 and gives up on a card without in0_label, so the tree is
one of MI210. It ends with 2 whenever one sensor is missing, its output being right.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Bench, Figure, Unmeasured, interleaved, median, need
from trees import GPUS, ReaderHere, tree

NAME = "rocm-smi"
TITLE = "one tick against one call of rocm-smi"
BAR = 1000.0
COMMAND = ["/usr/bin/rocm-smi", "--showmeminfo", "vram", "-t", "-c", "--json"]
DRM_MAJOR = 226


def measure(bench: Bench) -> Iterator[Figure]:
    need("rocm-smi", "unshare")
    if os.geteuid() != 0:
        raise Unmeasured("only root may mount a tree over /sys")
    root = tree(bench, "mi210")
    add_links(root)
    check(calls(bench, root, 1)[0], root)
    walls: list[float] = []

    def theirs() -> list[float]:
        found = calls(bench, root, 2)
        walls.extend(float(str(call["wall"])) for call in found)
        return [float(str(call["cpu"])) * 1e6 for call in found]

    with ReaderHere(root) as reader:
        compared = interleaved(bench.pick(10, 3), theirs, lambda: reader.ticks(bench.pick(300, 100), 0))
    yield Figure(
        NAME,
        f"one call of rocm-smi / our tick (read and decode), {GPUS} MI210: CPU",
        compared.ratio,
        BAR,
        at_least=True,
        note=f"{compared.ours / 1e6:.2f} s CPU ({median(walls):.2f} s wall), asked for memory, temperatures and clocks,"
        f" against {compared.theirs:.0f} us for all sensors in {len(reader.reads)} files",
    )


def add_links(root: str) -> None:
    """Folders of the topology that rocm-smi wants to find, and we do not read."""
    for node in Path(root, "sys/class/kfd/kfd/topology/nodes").iterdir():
        for name in ("io_links", "p2p_links"):
            (node / name).mkdir(exist_ok=True)


def calls(bench: Bench, root: str, count: int) -> list[dict[str, object]]:
    dev = bench.once("dev", lambda: make_dev(bench.folder / "dev", root))
    script = str(Path(__file__).resolve().parent.parent / "namespace_run.py")
    command = ["unshare", "-m", sys.executable, script, f"{root}/sys", str(dev), str(count), *COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unmeasured(f"no mount namespace: {done.stderr.strip().splitlines()[-1]}")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def make_dev(folder: Path, root: str) -> Path:
    """A /dev with what rocm-smi looks for. Nobody can open these nodes: there is no such driver here."""
    (folder / "dri").mkdir(parents=True)
    (folder / "shm").mkdir()
    os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(folder / "urandom", 0o666 | stat.S_IFCHR, os.makedev(1, 9))
    for name in os.listdir(f"{root}/sys/class/drm"):
        if name.startswith("renderD"):
            os.mknod(folder / "dri" / name, 0o666 | stat.S_IFCHR, os.makedev(DRM_MAJOR, int(name[len("renderD") :])))
    return folder


def check(call: dict[str, object], root: str) -> None:
    """Whether it really read the tree: a peer that fails fast would be cheap."""
    output = str(call["output"])
    files = Path(root, "sys/class/drm").glob("card*/device/mem_info_vram_used")
    used = {file.read_text().strip() for file in files}
    try:
        cards = json.loads(output[output.index("{") : output.rindex("}") + 1])
        seen = {card["VRAM Total Used Memory (B)"] for name, card in cards.items() if name.startswith("card")}
    except (ValueError, KeyError) as error:
        raise Unmeasured(f"rocm-smi said (exit {call['code']}): {output.strip()[-300:]}") from error
    if seen != used or len(cards) < GPUS:
        raise Unmeasured(f"rocm-smi read something else: {sorted(seen)} where the tree says {sorted(used)}")
