"""Who uses the GPUs of a simulated node: an engine for each, with a worker on each partition, and what a tool left.

    systemd                       1
    +-- vllm serve                vllm@0.service: it has no GPU itself
    |   +-- VLLM::EngineCore      a worker: holds what is used of its GPU beyond the driver's own
    +-- rocm-smi                  somebody's session: in the compute driver's books, without a byte

What the workers of a GPU hold and the driver's floor are together what is used of its memory, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rocmwatch.simulate.motion import GTT_FLOOR_BYTES, UPTIME_SECONDS, State
from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.places import Place
from rocmwatch.simulate.scenarios.scene import Run
from rocmwatch.simulate.topology import gpu_ids

INIT = "/init.scope"
SESSION = "/user.slice/user-1000.slice/session-3.scope"
_PAGE = 4096
_MONITOR_PID = 3121
_FIRST_PID = 4000
_PIDS_OF_A_GPU = 40  # the engine's, its workers', and the threads of each
_PIDS_OF_A_RUN = 2000
_FAULTS_PER_SECOND = 1.5
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a process has of one GPU, or of one of its partitions.

    Attributes:
        gpu_id: The compute driver's number of it.
        render_minor: The M of the renderDM that is open; `None`: none is, it is only in the driver's books.
        number: The DRM client's.
        descriptors: How often it has the node open: duplicates are the same client.
        queues: How many compute queues there are.
        faults: Page faults since its start.
    """

    pci: str
    gpu_id: int
    render_minor: int | None = None
    number: int = 0
    descriptors: int = 1
    vram_bytes: int = 0
    gtt_bytes: int = 0
    evicted_bytes: int = 0
    evicted_ms: int = 0
    faults: int = 0
    queues: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process.

    Attributes:
        started_at: Simulated seconds; before the simulation it is negative.
        threads: How many, itself included.
        environment: As /proc shows it.
        pasid: Its address space on the GPUs; `None` when it has none.
    """

    pid: int
    parent: int
    comm: str
    command: tuple[str, ...]
    cgroup: str
    started_at: float
    threads: int = 1
    environment: Mapping[str, str]
    clients: tuple[Client, ...] = ()
    pasid: int | None = None

    @property
    def start_time(self) -> int:
        """Clock ticks after boot."""
        return int((UPTIME_SECONDS + self.started_at) * 100)


def processes(
    model: Model, gpus: tuple[Place, ...], states: Mapping[int, State], engines: Mapping[int, Run]
) -> tuple[Process, ...]:
    """The processes of a moment.

    Args:
        model: The GPUs' model, in the mode that they are in.
        gpus: Those that are there.
        states: By the GPU's index.
        engines: By the GPU's index, what serves there; one whose GPU is not there is gone, too.
    """
    ids = gpu_ids(model, gpus)
    found = [_init(), _monitor(gpus, ids)]
    for gpu in gpus:
        run = engines.get(gpu.index)
        if run is not None:
            found += _engine(model, gpu, states[gpu.index], run, ids)
    return tuple(found)


def _init() -> Process:
    return Process(
        pid=1,
        parent=0,
        comm="systemd",
        command=("/sbin/init",),
        cgroup=INIT,
        started_at=-UPTIME_SECONDS,
        environment={},
    )


def _monitor(gpus: Sequence[Place], ids: Mapping[tuple[int, int], int]) -> Process:
    """Opening /dev/kfd is enough to be in the books, of every GPU, until one ends."""
    addresses = {gpu.index: gpu.pci for gpu in gpus}
    return Process(
        pid=_MONITOR_PID,
        parent=1,
        comm="rocm-smi",
        command=("python3", "/opt/rocm/bin/rocm-smi", "--showmeminfo", "vram"),
        cgroup=SESSION,
        started_at=-_HOUR,
        environment={"USER": "operator", "HOME": "/home/operator"},
        clients=tuple(Client(pci=addresses[index], gpu_id=gpu_id) for (index, _), gpu_id in ids.items()),
        pasid=32768,
    )


def _engine(model: Model, gpu: Place, state: State, run: Run, ids: Mapping[tuple[int, int], int]) -> Iterator[Process]:
    pid = _FIRST_PID + _PIDS_OF_A_RUN * run.number + _PIDS_OF_A_GPU * gpu.index
    unit = f"vllm@{gpu.index}.service"
    environment = {
        "INVOCATION_ID": f"{run.number + 1:08x}{gpu.index:08x}{gpu.unique_id:016x}",
        "HIP_VISIBLE_DEVICES": str(gpu.index),
        "LANG": "C.UTF-8",
    }
    serve = Process(
        pid=pid,
        parent=1,
        comm="vllm",
        command=(
            "/opt/vllm/bin/python3",
            "/opt/vllm/bin/vllm",
            "serve",
            "example/model",
            "--port",
            f"{8000 + gpu.index}",
        ),
        cgroup=f"/system.slice/{unit}",
        started_at=run.started_at - 0.5,
        threads=2,
        environment=environment,
    )
    yield serve
    nodes = gpu.partition_nodes(model)
    vram = _shares(state.vram_used_bytes - model.vram_floor_bytes, len(nodes))
    gtt = _shares(state.gtt_used_bytes - GTT_FLOOR_BYTES, len(nodes))
    evicted = _shares(state.evicted_bytes, len(nodes))
    for partition, node in enumerate(nodes):
        worker = pid + 4 * (partition + 1)
        client = Client(
            pci=gpu.pci,
            gpu_id=ids[gpu.index, partition],
            render_minor=node.render_minor,
            number=16 + worker,
            descriptors=1 if partition else 2,
            vram_bytes=vram[partition],
            gtt_bytes=gtt[partition],
            evicted_bytes=evicted[partition],
            evicted_ms=int(1000 * state.evicted_seconds) // len(nodes),
            faults=int(_FAULTS_PER_SECOND * max(0.0, state.seconds - run.started_at)),
            queues=2,
        )
        yield Process(
            pid=worker,
            parent=pid,
            comm="VLLM::EngineCor",  # the kernel keeps 15 bytes
            command=("VLLM::EngineCore",),
            cgroup=serve.cgroup,
            started_at=run.started_at,
            threads=3,
            environment=environment,
            clients=(client,),
            pasid=32769 + worker - _FIRST_PID,
        )


def _shares(size: int, count: int) -> list[int]:
    """Whole pages that are together as much; the first share has what does not go round."""
    share = size // count // _PAGE * _PAGE
    return [size - share * (count - 1)] + [share] * (count - 1)
