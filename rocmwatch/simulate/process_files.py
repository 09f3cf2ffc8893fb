"""Processes as the kernel shows them: /proc, the compute driver's books, control groups.

Source: fs/proc/array.c (stat, status), fs/proc/fd.c, amdkfd/kfd_process.c (books), kernel/cgroup/dmem.c.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from rocmwatch.simulate.fdinfo_text import fdinfo_text
from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.places import Place
from rocmwatch.simulate.processes import Process
from rocmwatch.simulate.topology import KFD
from rocmwatch.simulate.tree import Tree

CGROUPS = "sys/fs/cgroup"
UNITS = "units.json"  # no file of the kernel's: `--root` takes from it what systemd would say
_KFD_DESCRIPTOR = 9
_DRM_DESCRIPTORS = (11, 12)
_QUEUE_BYTES = 1 << 20
_COMPUTE_QUEUE = 0
_SIGNALS = ("SigPnd", "ShdPnd", "SigBlk")
_CONTROLLERS = "cpuset cpu io memory pids"
_DMEM = ("dmem.current", "dmem.capacity")


def add_processes(tree: Tree, model: Model, gpus: tuple[Place, ...], processes: tuple[Process, ...]) -> None:
    """Adds all that the kernel shows of the processes.

    Args:
        tree: Where to.
        model: The GPUs' model.
        gpus: Those that are there.
        processes: All of them.
    """
    for process in processes:
        _add_proc(tree, process)
        if process.pasid is not None:
            _add_open_files(tree, model, process)
            _add_books(tree, model, process)
    _add_cgroups(tree, model, gpus, processes)
    tree.files[UNITS] = json.dumps(_units(processes), indent=2).encode() + b"\n"


def _units(processes: Iterable[Process]) -> dict[str, dict[str, object]]:
    """What systemd would say of the services that they belong to; the first process of each is its main one."""
    units: dict[str, dict[str, object]] = {}
    for process in processes:
        name = process.cgroup.rpartition("/")[2]
        if name.endswith(".service"):
            invocation = process.environment.get("INVOCATION_ID", "")
            state = {
                "active_state": "active",
                "sub_state": "running",
                "main_pid": process.pid,
                "invocation": invocation,
            }
            units.setdefault(name, state)
    return units


def _add_proc(tree: Tree, process: Process) -> None:
    folder = f"proc/{process.pid}"
    for thread in range(process.threads):
        number = process.pid + thread
        tree.files[f"{folder}/task/{number}/stat"] = _stat(process, number)
        tree.text(f"{folder}/task/{number}", comm=process.comm)
    tree.files[f"{folder}/stat"] = _stat(process, process.pid)
    tree.files[f"{folder}/status"] = _status(process)
    tree.text(folder, comm=process.comm, cgroup=f"0::{process.cgroup}")
    tree.files[f"{folder}/cmdline"] = "".join(f"{word}\0" for word in process.command).encode()
    tree.files[f"{folder}/environ"] = "".join(f"{key}={value}\0" for key, value in process.environment.items()).encode()
    tree.folders |= {f"{folder}/fd", f"{folder}/fdinfo"}
    for descriptor in range(3):
        tree.pointers[f"{folder}/fd/{descriptor}"] = "/dev/null"
        tree.files[f"{folder}/fdinfo/{descriptor}"] = b"pos:\t0\nflags:\t0100002\nmnt_id:\t26\nino:\t4\n"


def _stat(process: Process, number: int) -> bytes:
    """52 fields: number, name, state, parent, group, session, ..., priority, nice, threads, 0, start, sizes, ..."""
    group = process.parent if process.parent > 1 else process.pid
    before = f"S {process.parent} {group} {group} 0 -1 4194560 2048 0 0 0 310 120 0 0 20 0 {process.threads} 0"
    after = "8589934592 524288 18446744073709551615 1 1 0 0 0 0 0 16781312 16384 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0"
    return f"{number} ({process.comm}) {before} {process.start_time} {after}\n".encode()


def _status(process: Process) -> bytes:
    lines = {
        "Name": process.comm,
        "Umask": "0022",
        "State": "S (sleeping)",
        "Tgid": process.pid,
        "Ngid": 0,
        "Pid": process.pid,
        "PPid": process.parent,
        "TracerPid": 0,
        "Uid": "0\t0\t0\t0",
        "Gid": "0\t0\t0\t0",
        "FDSize": 64,
        "NSpid": process.pid,
        "VmRSS": " 2097152 kB",
        "Threads": process.threads,
        **dict.fromkeys(_SIGNALS, "0" * 16),
    }
    return "".join(f"{name}:\t{value}\n" for name, value in lines.items()).encode()


def _add_open_files(tree: Tree, model: Model, process: Process) -> None:
    folder = f"proc/{process.pid}"
    tree.pointers[f"{folder}/fd/{_KFD_DESCRIPTOR}"] = "/dev/kfd"
    tree.files[f"{folder}/fdinfo/{_KFD_DESCRIPTOR}"] = b"pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1051\n"
    for client in process.clients:
        if client.render_minor is None:
            continue
        text = fdinfo_text(model.kernel.fdinfo, client, process.pasid or 0)
        for descriptor in _DRM_DESCRIPTORS[: client.descriptors]:
            tree.pointers[f"{folder}/fd/{descriptor}"] = f"/dev/dri/renderD{client.render_minor}"
            tree.files[f"{folder}/fdinfo/{descriptor}"] = text
            tree.renewed.add(f"{folder}/fdinfo/{descriptor}")


def _add_books(tree: Tree, model: Model, process: Process) -> None:
    """The compute driver's. `sdma_*` and `cu_occupancy` ask the hardware: a monitor must not open them."""
    folder = f"{KFD}/proc/{process.pid}"
    tree.text(folder, pasid="0" if model.kernel.fdinfo == "7.3" else str(process.pasid))
    tree.folders.add(f"{folder}/queues")
    queue = 0
    for client in process.clients:
        gpu = client.gpu_id
        tree.text(folder, **{f"vram_{gpu}": str(client.vram_bytes), f"sdma_{gpu}": "0"})
        tree.text(f"{folder}/stats_{gpu}", evicted_ms=str(client.evicted_ms), cu_occupancy="0")
        tree.text(f"{folder}/counters_{gpu}", faults=str(client.faults), page_in="0", page_out="0")
        for _ in range(client.queues):
            texts = {"gpuid": gpu, "size": _QUEUE_BYTES, "type": _COMPUTE_QUEUE}
            tree.files |= {f"{folder}/queues/{queue}/{name}": b"%d" % value for name, value in texts.items()}
            queue += 1


def _add_cgroups(tree: Tree, model: Model, gpus: tuple[Place, ...], processes: tuple[Process, ...]) -> None:
    """Who is in which group; what a group has of the VRAM is also in every group above it."""
    members: dict[str, list[int]] = {}
    held: dict[str, dict[str, int]] = {}
    for process in processes:
        members.setdefault(process.cgroup, []).append(process.pid)
        for group in _with_parents(process.cgroup):
            of_group = held.setdefault(group, {})
            for client in process.clients:
                of_group[client.pci] = of_group.get(client.pci, 0) + client.vram_bytes
    counts = all(map(model.kernel.has, _DMEM))
    tree.text(CGROUPS, **{"cgroup.controllers": _CONTROLLERS + (" dmem" if counts else "")})
    for group, of_group in held.items():
        pids = members.get(group, [])
        tree.files[f"{CGROUPS}{group}/cgroup.procs"] = "".join(f"{pid}\n" for pid in pids).encode()
        if counts:
            tree.files[f"{CGROUPS}{group}/dmem.current"] = _regions(gpus, of_group)
            tree.renewed.add(f"{CGROUPS}{group}/dmem.current")
    if counts:
        totals = {gpu.pci: model.vram_total_bytes for gpu in gpus}
        tree.files[f"{CGROUPS}/dmem.capacity"] = _regions(gpus, totals)


def _with_parents(group: str) -> Iterable[str]:
    while group != "/":
        yield group
        group = os.path.dirname(group)


def _regions(gpus: tuple[Place, ...], sizes: dict[str, int]) -> bytes:
    return "".join(f"drm/{gpu.pci}/vram {sizes.get(gpu.pci, 0)}\n" for gpu in gpus).encode()
