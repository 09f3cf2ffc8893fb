"""A node with people on it: processes, control groups and a name of its own, laid over a simulated one."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

HOST = "rechenknecht-07.lab.acme-corp.example"
CONTAINER = "3f9a0c" + "5b7d" * 14 + "e1"
POD = "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9"
GROUPS = {
    94242: f"/kubepods.slice/kubepods-pod{POD}.slice/cri-containerd-{CONTAINER}.scope",
    94243: "/user.slice/user-51234.slice/session-7.scope",
    94244: "/acme.slice/geheimprojekt-rechenknecht\\x2d07@8123.service",
}
COMMANDS = {
    94242: (
        "/opt/kunde/bin/vllm",
        "serve",
        "kunde/modell-9b",
        "--api-key=sk-Xy9Zq",
        "--port",
        "8123",
        "--dtype",
        "auto",
    ),
    94243: ("python3", "-m", "sglang", "--model-path", "/home/mmustermann/gewichte"),
    94244: ("./train<b>&amp;\n.bin", "--host", "10.20.30.40", "--mac", "3c:ec:ef:12:34:56"),
}
NAMES = {94242: "VLLM::EngineCor", 94243: "python3", 94244: "train<b>&\n.bi"}
SECRETS = (
    HOST,
    "rechenknecht",
    "acme",
    CONTAINER,
    POD,
    "51234",
    "geheimprojekt",
    "kunde",
    "modell",
    "Xy9Zq",
    "mmustermann",
    "gewichte",
    "train",
    "10.20.30.40",
    "3c:ec:ef:12:34:56",
)
_STAT = "S 1 {0} {0} 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 918273 1000 20 18446744073709551615 94012 94990 1 1\n"
_TRAP = "a monitor has read what it must not\n"


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)


def inhabit(root: str | Path, minor: int = 128) -> Path:
    """Puts people on a node. Returns its root."""
    root = Path(root)
    pci = (root / "sys/class/drm" / f"renderD{minor}" / "device").resolve().name
    gpu_id = next(
        text
        for file in sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id"))
        if (text := file.read_text()) != "0\n"
    ).strip()
    write(root / "proc/sys/kernel/hostname", f"{HOST}\n")
    write(root / "proc/sys/kernel/osrelease", "6.12.48-acme+\n")
    write(root / "sys/fs/cgroup/dmem.capacity", f"drm/{pci}/vram 206141652992\n")
    for pid, group in GROUPS.items():
        folder = root / f"proc/{pid}"
        name = NAMES[pid]
        write(folder / "comm", f"{name}\n")
        write(folder / "stat", f"{pid} ({name}) " + _STAT.format(pid))
        shown = name.replace("\n", "\\n")
        write(
            folder / "status", f"Name:\t{shown}\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t51234\t51234\nThreads:\t9\n"
        )
        write(folder / "cgroup", f"0::{group}\n")
        write(folder / "cmdline", "\0".join((*COMMANDS[pid], "")))
        write(folder / "environ", "OPENAI_API_KEY=sk-umgebung\0")
        (folder / "fd").mkdir(parents=True)
        os.symlink(f"/dev/dri/renderD{minor}", folder / "fd/9")
        os.symlink("/home/mmustermann/notizen.txt", folder / "fd/77")
        write(
            folder / "fdinfo/9",
            f"pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t{pci}\ndrm-client-id:\t{pid}\n"
            f"drm-client-name:\tkunde-viewer\ndrm-memory-vram:\t{pid} KiB\n",
        )
        write(folder / "fdinfo/77", _TRAP)
        books = root / f"sys/class/kfd/kfd/proc/{pid}"
        write(books / "pasid", "32770\n")
        write(books / f"vram_{gpu_id}", f"{pid << 20}\n")
        write(books / f"sdma_{gpu_id}", _TRAP)
        write(books / f"stats_{gpu_id}/evicted_ms", "17\n")
        write(books / f"stats_{gpu_id}/cu_occupancy", _TRAP)
        write(books / "queues/0/gpuid", gpu_id)
        cgroup = root / f"sys/fs/cgroup{group}"
        write(cgroup / "dmem.current", f"drm/{pci}/vram {pid << 20}\n")
        write(cgroup / "cgroup.procs", f"{pid}\n")
    write(root / "sys/fs/cgroup/buchhaltung.slice/dmem.current", "")
    write(root / "sys/fs/cgroup/buchhaltung.slice/cgroup.procs", "1\n")
    return root


def contents(archive: str | Path) -> dict[str, bytes]:
    """Every member: its content, or what it leads to."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            found[member.name] = file.read() if file else member.linkname.encode("utf-8", "surrogateescape")
    return found


def manifest(archive: str | Path) -> dict[str, Any]:
    document = json.loads(contents(archive)["manifest.json"])
    assert isinstance(document, dict)
    return document


def everything(archive: str | Path) -> bytes:
    """All names and all contents, in one."""
    return b"\n".join(
        name.encode("utf-8", "surrogateescape") + b"\n" + data for name, data in contents(archive).items()
    )
