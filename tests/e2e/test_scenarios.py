"""What the sampler makes of what happens to a simulated node, at clocks that are moved by hand: seconds are minutes.

The picture says what happened and to whom, the other GPUs are undisturbed, and all is well again afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from e2e.running import Service, eventually
from watching import HandClock, Watcher, faults_of, of, said, states

from rocmwatch.model import GpuReading, Snapshot
from rocmwatch.observe.census import Census
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.link import LauncherLink
from rocmwatch.observe.stall import Patience
from rocmwatch.simulate import SimulatedNode
from rocmwatch.simulate.scenarios.scene import BEGINS_AT

Watch = Callable[..., Watcher]
START = 50.0
PATIENCE = Patience(trial_seconds=5.0)  # a try is seen through within its tick


class Play:
    """A node in a scenario and who watches it, in step.

    Attributes:
        node: The node.
        watcher: At its clock.
        healthy: The picture before anything happened.
    """

    def __init__(self, node: SimulatedNode, watcher: Watcher) -> None:
        self.node, self.watcher = node, watcher
        node.step(START)
        self.healthy = watcher.tick()

    def to(self, seconds: float, step: float = 5.0) -> Snapshot:
        """The picture at a moment of the simulation, having looked every so often until then."""
        assert self.watcher.last is not None
        snapshot = self.watcher.last
        while self.node.seconds < seconds:
            self.node.step(min(step, seconds - self.node.seconds))
            snapshot = self.watcher.tick(step)
        return snapshot

    @property
    def victim(self) -> str:
        return self.node.places[1].pci

    def undisturbed(self, snapshot: Snapshot, *but: str) -> bool:
        """Whether the other GPUs are active, read without a fault, and say as much as they did."""
        others = [reading for reading in snapshot.gpus if reading.gpu.pci not in but]
        return bool(others) and all(
            reading.state.value == "active"
            and not reading.faults
            and reading.sampled_at == snapshot.taken_at
            and set(said(of(self.healthy, reading.gpu.pci))) <= set(said(reading))
            for reading in others
        )


@pytest.fixture
def play(tmp_path: Path, watch: Watch) -> Iterator[Callable[..., Play]]:
    with ExitStack() as stack:

        def begin(scenario: str, model: str = "mi300x", gpus: int = 3, kernel: str | None = None) -> Play:
            node = SimulatedNode(str(tmp_path / "node"), model, gpus, scenario, kernel=kernel)
            stack.enter_context(node)
            return Play(node, watch(node.root, patience=PATIENCE))

        yield begin


@pytest.mark.parametrize("kernel", ["6.12", "7.3"])
def test_a_hung_gpu_stalls_while_the_others_go_on_and_is_read_again_afterwards(
    play: Callable[..., Play], kernel: str
) -> None:
    it = play("hung-gpu", kernel=kernel)
    stalled = it.to(BEGINS_AT + 61)

    assert "stalled" == states(stalled)[it.victim]
    assert it.undisturbed(stalled, it.victim)
    assert of(stalled, it.victim).sample is None

    still = it.to(BEGINS_AT + 115)
    assert "stalled" == states(still)[it.victim]
    assert it.undisturbed(still, it.victim)

    over = it.to(BEGINS_AT + 240)
    assert it.undisturbed(over)
    assert 0 == over.readers.abandoned
    assert not [name for name in os.listdir(it.node.root) if name.startswith(".")]


def test_a_gpu_that_falls_off_the_bus_is_lost_at_the_next_look_and_keeps_its_number(play: Callable[..., Play]) -> None:
    it = play("gpu-lost")
    it.to(BEGINS_AT - 1)
    it.node.step(1)
    lost = it.watcher.tick(5)

    assert "lost" == states(lost)[it.victim]
    assert of(lost, it.victim).sample is None
    assert it.undisturbed(lost, it.victim)
    assert [gpu.gpu.gpu for gpu in lost.gpus] == ["0", "1", "2"]

    back = it.to(BEGINS_AT + 95)
    assert it.undisturbed(back)
    assert "1" == of(back, it.victim).gpu.gpu
    assert 1 == {state.value: count for state, count in of(back, it.victim).events.states.items()}["lost"]
    assert _power(of(back, it.victim)) < 0.6 * _power(of(it.healthy, it.victim))  # it has nothing to do yet


def _power(reading: GpuReading) -> float:
    assert reading.sample is not None
    assert reading.sample.power_watts is not None
    return reading.sample.power_watts


def test_a_node_that_changes_its_partitions_is_seen_in_each_mode_at_once(play: Callable[..., Play]) -> None:
    it = play("partition-switch", kernel="7.3")
    it.to(BEGINS_AT - 1)
    it.node.step(1)
    parted = it.watcher.tick(5)

    assert {"CPX"} == {reading.gpu.compute_partition for reading in parted.gpus}
    assert [8, 8, 8] == [len(reading.gpu.partitions) for reading in parted.gpus]
    assert {24 << 30, 196592 << 17} & {
        partition.vram_total_bytes for reading in parted.gpus for partition in reading.gpu.partitions
    }
    assert not [fault for reading in parted.gpus for fault in faults_of(reading)]

    whole = it.to(BEGINS_AT + 125)
    assert {"SPX"} == {reading.gpu.compute_partition for reading in whole.gpus}
    assert [(), (), ()] == [reading.gpu.partitions for reading in whole.gpus]
    assert [2, 2, 2] == [reading.events.partition_changes for reading in whole.gpus]
    assert it.undisturbed(whole)


def test_gpus_that_sleep_are_left_alone_and_told_from_those_that_work(play: Callable[..., Play]) -> None:
    it = play("suspended")
    asleep = it.to(BEGINS_AT + 10)
    awake, *sleepers = asleep.gpus

    assert ["active", "suspended", "suspended"] == list(states(asleep).values())
    assert it.undisturbed(asleep, *(reading.gpu.pci for reading in sleepers))
    for reading in sleepers:
        assert reading.sample is not None
        assert reading.sample.vram_used_bytes == it.node.model.vram_floor_bytes
        assert ({}, None) == (reading.sample.temperatures_celsius, reading.sample.power_watts)
        assert () == reading.faults
    assert _power(awake) > 200

    sensors = [Path(it.node.root, place.hwmon, "temp2_input") for place in it.node.places[1:]]
    for path in sensors:
        path.write_text("99000\n")  # would be seen if it were read
    later = it.to(BEGINS_AT + 50)
    assert not [reading for reading in later.gpus[1:] if reading.sample and reading.sample.temperatures_celsius]

    woken = it.to(BEGINS_AT + 70)
    assert it.undisturbed(woken)


def test_dead_sensors_are_named_and_nothing_else_goes_without(play: Callable[..., Play]) -> None:
    it = play("dead-sensors", gpus=6)
    dead = it.to(BEGINS_AT + 24)  # at 84 s
    found = {reading.gpu.gpu: {(source, name) for source, name, _ in faults_of(reading)} for reading in dead.gpus}

    temperatures = ("temperature_junction", "temperature_memory")
    assert {(name, "ENODATA") for name in temperatures} == found["0"]
    assert set() == found["1"]
    assert {(name, "ERANGE") for name in temperatures} == found["2"]
    assert {("clock_sclk", "EBADMSG"), ("clock_mclk", "EBADMSG")} == found["4"]
    assert {("power", "ENODATA")} == found["5"]
    # Where hwmon says 0 or nothing, gpu_metrics stands in; of the last GPU both are dead.
    power = [reading.sample.power_watts for reading in dead.gpus if reading.sample]
    assert [True, True, True, True, True, False] == [watts is not None and watts > 100 for watts in power]
    assert all(reading.state.value == "active" for reading in dead.gpus)
    for reading in dead.gpus:
        missing = set(said(of(it.healthy, reading.gpu.pci))) - set(said(reading))
        assert not [name for name in missing if "vram" in name or "gtt" in name]

    assert it.undisturbed(it.to(BEGINS_AT + 185))  # after the slow look that follows the last one


@pytest.mark.parametrize(("kernel", "model"), [("7.3", "mi300x"), ("dkms", "mi300x")])
def test_a_hot_gpu_is_seen_to_be_held_down(play: Callable[..., Play], kernel: str, model: str) -> None:
    it = play("thermal", model=model, kernel=kernel)
    hot = it.to(BEGINS_AT + 60)
    reading = of(hot, it.victim)

    assert reading.sample is not None
    assert 0.7 < reading.sample.throttle_ratio["socket_thermal"] < 0.9
    assert reading.sample.temperatures_celsius["junction"] > 94
    cool = of(hot, it.node.places[0].pci).sample
    assert cool is not None
    assert cool.throttle_ratio.get("socket_thermal", 0) < 0.01


def test_fragments_show_in_the_table_of_free_blocks(play: Callable[..., Play]) -> None:
    it = play("fragmenting", kernel="7.3", gpus=1)
    later = it.to(BEGINS_AT + 600, step=60)
    table = later.gpus[0].free_blocks
    state = it.node.states[0]

    assert table is not None
    assert it.node.model.vram_total_bytes - state.vram_used_bytes == table.free_bytes
    large = sum(count << order for order, count in table.blocks if order >= 9) * table.chunk_bytes
    assert large < 0.6 * table.free_bytes


class Book:
    """Who holds what, by the processes reader."""

    def __init__(self, root: str) -> None:
        self.launcher = LauncherLink(root)
        self.crew = Crew(self.launcher, role="processes")
        self.clock = HandClock()
        self.census = Census(self.crew, self.clock)
        self.census.deadline_seconds = 5.0

    def held(self, snapshot: Snapshot) -> dict[str, dict[tuple[str, str | None], int]]:
        """Name of a process -> place -> bytes in the driver's books, a minute later."""
        self.clock.now += 61
        found = self.census.tick([reading.gpu for reading in snapshot.gpus])
        held: dict[str, dict[tuple[str, str | None], int]] = {}
        for process in found.processes or ():
            for use in process.uses:
                of_name = held.setdefault(process.comm or "", {})
                place = (use.pci, use.partition)
                of_name[place] = of_name.get(place, 0) + (use.kfd_bytes or 0)
        return held

    def close(self) -> None:
        self.crew.close()
        self.launcher.close()


def test_the_holders_of_a_node_hold_what_is_used_in_each_mode(play: Callable[..., Play]) -> None:
    it = play("partition-switch", gpus=2)
    with closing(Book(it.node.root)) as book:
        whole = book.held(it.healthy)
        parted = book.held(it.to(BEGINS_AT + 50))
        states = it.node.states
        empty = book.held(it.to(BEGINS_AT + 116))

    floor = it.node.model.vram_floor_bytes
    pcis = [place.pci for place in it.node.places]
    assert {"rocm-smi", "VLLM::EngineCor"} == set(whole) == set(parted)
    assert {(pci, None): 0 for pci in pcis} == whole["rocm-smi"]
    assert set(pcis) == {pci for pci, partition in whole["VLLM::EngineCor"] if partition is None}
    assert 16 == len(parted["VLLM::EngineCor"])
    for pci, state in zip(pcis, states, strict=True):
        shares = [held for (at, _), held in parted["VLLM::EngineCor"].items() if at == pci]
        assert state.vram_used_bytes == floor + sum(shares)
    assert {"rocm-smi"} == set(empty)


def test_the_daemon_sees_a_gpu_go_and_come_back(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", 3, "gpu-lost") as node:
        node.step(START)
        config = "sampling: {interval: 250ms, sensors: 1s}"
        with Service(tmp_path, node.root, config) as service:
            victim, other = node.places[1].pci, node.places[2].pci
            assert {"active"} == set(service.states().values())
            node.step(BEGINS_AT - START)
            eventually(lambda: service.states()[victim] == "lost", "a GPU that is lost")
            assert "active" == service.states()[other]
            node.step(91)
            eventually(lambda: service.states()[victim] == "active", "a GPU that is back")
            changes = [value for name, value in service.metrics().items() if _is_loss_of(name, victim)]

    assert [1.0] == changes


def _is_loss_of(series: str, pci: str) -> bool:
    return series.startswith("rocmwatch_gpu_state_changes_total") and pci in series and 'state="lost"' in series
