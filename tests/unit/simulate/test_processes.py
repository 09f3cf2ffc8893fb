"""The processes of a simulated node, as its files show them: read back by the product's own parsers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocmwatch.kernel.dmem import parse_dmem
from rocmwatch.kernel.fdinfo import Client, parse_fdinfo
from rocmwatch.kernel.number import parse_number
from rocmwatch.kernel.process import parse_cgroup, parse_stat
from rocmwatch.simulate import KERNELS, MODELS, SimulatedNode
from rocmwatch.simulate.motion import GTT_FLOOR_BYTES

BOOKS = "sys/class/kfd/kfd/proc"
MONITOR = "3121"
ON = {"mi210": list(KERNELS)} | {name: ["6.12", "7.3"] for name in ("mi300x", "mi300x-cpx", "strix-halo")}


@pytest.fixture(
    params=[
        (model, kernel) for model, kernels in ON.items() for kernel in kernels if kernel in MODELS[model].revisions
    ],
    ids="-".join,
)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimulatedNode]:
    """Two GPUs that serve."""
    model, kernel = request.param
    with SimulatedNode(str(tmp_path), model, min(2, len(MODELS[model].pci)), kernel=kernel) as node:
        node.step(40)
        node.step(45)
        yield node


def _workers(node: SimulatedNode) -> list[Path]:
    """The folders in /proc of those that have something in the driver's books."""
    return [Path(node.root, "proc", name) for name in sorted(os.listdir(f"{node.root}/{BOOKS}")) if name != MONITOR]


def _books(node: SimulatedNode, pid: str) -> dict[str, int]:
    folder = Path(node.root, BOOKS, pid)
    return {path.name[5:]: parse_number(path.read_bytes(), 0, 1 << 50) for path in folder.glob("vram_*")}


def _clients(folder: Path) -> dict[tuple[str, str], Client]:
    found = {}
    for link in (folder / "fd").iterdir():
        if os.readlink(link).startswith("/dev/dri/renderD"):
            client = parse_fdinfo((folder / "fdinfo" / link.name).read_bytes())
            assert client is not None
            found[client.pci, client.client] = client
    return found


def test_the_books_and_the_drivers_floor_are_what_is_used(node: SimulatedNode) -> None:
    ids = {
        (Path(path, "gpu_id").read_text().strip()): (Path(path, "properties").read_text())
        for path in Path(node.root, "sys/class/kfd/kfd/topology/nodes").iterdir()
    }
    held: dict[str, int] = {}
    for worker in _workers(node):
        for gpu_id, size in _books(node, worker.name).items():
            location = int(ids[gpu_id].split("location_id ")[1].split()[0])
            pci = f"0000:{location >> 8:02x}:00.0"
            held[pci] = held.get(pci, 0) + size

    for place, state in zip(node.places, node.states, strict=True):
        used = parse_number(Path(node.root, place.device, "mem_info_vram_used").read_bytes(), 0, 1 << 50)
        assert state.vram_used_bytes == used == node.model.vram_floor_bytes + held[place.pci]


def test_what_is_mapped_is_what_is_in_the_books(node: SimulatedNode) -> None:
    host: dict[str, int] = {}
    for worker in _workers(node):
        [client] = _clients(worker).values()
        assert sum(_books(node, worker.name).values()) == client.vram_bytes
        host[client.pci] = host.get(client.pci, 0) + (client.gtt_bytes or 0)
        evicted = None if node.model.kernel.fdinfo in ("5.15", "6.1") else 0
        assert evicted == client.evicted_bytes

    for place, state in zip(node.places, node.states, strict=True):
        assert state.gtt_used_bytes == GTT_FLOOR_BYTES + host[place.pci]


def test_each_partition_has_a_worker_with_its_render_node_open(node: SimulatedNode) -> None:
    opened = [
        {os.readlink(link) for link in (worker / "fd").iterdir() if "renderD" in os.readlink(link)}
        for worker in _workers(node)
    ]
    minors = [part.render_minor for place in node.places for part in place.partition_nodes(node.model)]

    assert [{f"/dev/dri/renderD{minor}"} for minor in minors] == opened
    assert all(os.readlink(worker / "fd/9") == "/dev/kfd" for worker in _workers(node))


def test_a_worker_belongs_to_a_unit_and_a_parent(node: SimulatedNode) -> None:
    for number, worker in enumerate(_workers(node)):
        stat = parse_stat((worker / "stat").read_bytes())
        parent = parse_stat((worker.parent / str(stat.parent) / "stat").read_bytes())
        gpu = number * len(node.places) // len(_workers(node))

        assert ("VLLM::EngineCor", "S", "vllm", 1) == (stat.comm, stat.state, parent.comm, parent.parent)
        assert parent.start_time <= stat.start_time == 86_401 * 100
        cgroup = parse_cgroup((worker / "cgroup").read_bytes())
        assert f"/system.slice/vllm@{gpu}.service" == cgroup
        assert worker.name in Path(f"{node.root}/sys/fs/cgroup{cgroup}/cgroup.procs").read_text().split()
        assert b"INVOCATION_ID=" in (worker / "environ").read_bytes()
        assert {worker.name} < set(os.listdir(worker / "task"))
        queues = Path(node.root, BOOKS, worker.name, "queues")
        assert {"0", "1"} == set(os.listdir(queues))
        assert (queues / "0/gpuid").read_text() in _books(node, worker.name)


def test_a_tool_that_was_left_behind_is_in_the_books_without_a_byte(node: SimulatedNode) -> None:
    books = _books(node, MONITOR)
    parts = sum(len(place.partition_nodes(node.model)) for place in node.places)

    assert (parts, {0}) == (len(books), set(books.values()))
    assert {} == _clients(Path(node.root, "proc", MONITOR))
    assert "rocm-smi" == parse_stat(Path(node.root, "proc", MONITOR, "stat").read_bytes()).comm


def test_control_groups_say_what_theirs_hold_where_the_kernel_counts_it(node: SimulatedNode) -> None:
    root = Path(node.root, "sys/fs/cgroup")
    if node.model.kernel.name != "7.3":
        assert [] == list(root.rglob("dmem.*"))
        return

    assert dict.fromkeys([place.pci for place in node.places], node.model.vram_total_bytes) == parse_dmem(
        (root / "dmem.capacity").read_bytes()
    )
    for place, state in zip(node.places, node.states, strict=True):
        held = state.vram_used_bytes - node.model.vram_floor_bytes
        unit = root / f"system.slice/vllm@{place.index}.service"
        assert held == parse_dmem((unit / "dmem.current").read_bytes())[place.pci]
        assert held == parse_dmem((root / "system.slice/dmem.current").read_bytes())[place.pci]


def test_the_order_of_lines_is_the_kernels(node: SimulatedNode) -> None:
    worker = _workers(node)[0]
    lines = (worker / "fdinfo/11").read_text().splitlines()
    keys = [line.split(":")[0] for line in lines[4:8]]

    expected = {
        "5.15": ["pdev", "pasid", "vram mem", "gtt mem"],
        "6.1": ["pasid", "drm-driver", "drm-pdev", "drm-client-id"],
        "6.5": ["pasid", "drm-driver", "drm-pdev", "drm-client-id"],
        "6.8": ["drm-driver", "drm-client-id", "drm-pdev", "pasid"],
        "7.3": ["drm-driver", "drm-client-id", "drm-pdev", "pasid"],
    }
    assert expected[node.model.kernel.fdinfo] == keys
