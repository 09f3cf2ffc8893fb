"""What the simulated GPUs count in gpu_metrics and in the metrics of their partitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocmwatch.kernel.gpu_metrics import Decoder, Value, parse_gpu_metrics
from rocmwatch.kernel.throttle import ACCUMULATED, REASONS, ThrottleMeter, throttled_now
from rocmwatch.kernel.xcp_metrics import PartitionDecoder
from rocmwatch.kernel.xgmi import link_bytes
from rocmwatch.simulate import KERNELS, MODELS, SimulatedNode, State
from rocmwatch.simulate.metrics import gpu_metrics, partition_metrics
from rocmwatch.simulate.motion import UPTIME_SECONDS, healthy
from rocmwatch.simulate.parts import Model

SHARES = {"prochot": 0.02, "power": 0.25, "socket_thermal": 0.5, "vr_thermal": 0.125, "hbm_thermal": 0.0625}
COUNTING = [
    pytest.param(model, kernel, id=f"{model}-{kernel}")
    for model in ("mi300x", "mi300x-cpx", "mi325x-dpx", "mi355x")
    for kernel in ("7.3", "dkms-6.4", "dkms")
    if kernel in MODELS[model].revisions
]


def _on(model: str, kernel: str) -> Model:
    return MODELS[model].on(KERNELS[kernel])


def _state(model: Model, seconds: float = 60.0) -> State:
    return healthy(model, 1, 0, seconds)


def _numbers(value: Value) -> list[int | None]:
    assert isinstance(value, tuple)
    return list(value)


@pytest.mark.parametrize(("model", "kernel"), COUNTING)
def test_residencies_are_shares_of_the_firmware_s_rounds(model: str, kernel: str) -> None:
    card = _on(model, kernel)
    meter, decoder = ThrottleMeter(), Decoder()

    shares = {}
    for seconds in (60.0, 160.0):
        held = {reason: share * seconds for reason, share in SHARES.items()}
        reading = decoder.decode(gpu_metrics(card, replace(_state(card, seconds), throttle=held)))
        shares = dict(meter.update(reading.accumulator_bits, reading.accumulated))

    assert set(REASONS) == set(shares)
    assert SHARES == pytest.approx(shares, abs=1e-4)


@pytest.mark.parametrize(("model", "kernel"), COUNTING)
def test_the_firmware_s_rounds_go_on_when_nothing_is_held_down(model: str, kernel: str) -> None:
    card = _on(model, kernel)
    fields = parse_gpu_metrics(gpu_metrics(card, replace(_state(card), throttle={}))).fields

    assert int(1000 * (UPTIME_SECONDS + 60)) == fields[ACCUMULATED[0]]
    assert [0] * len(REASONS) == [fields[name] for name in ACCUMULATED[1:]]


@pytest.mark.parametrize(
    "reasons", [set(), {"power"}, {"current"}, {"thermal"}, {"prochot"}, {"power", "thermal", "prochot"}]
)
@pytest.mark.parametrize("model", ["mi210", "rx7900xtx"])
def test_a_reason_of_this_moment_is_a_bit(model: str, reasons: set[str]) -> None:
    state = replace(_state(MODELS[model]), throttled=frozenset(reasons))
    status = Decoder().decode(gpu_metrics(MODELS[model], state)).throttle_status

    assert status is not None
    assert reasons == {reason for reason, holds in throttled_now(status).items() if holds}


@pytest.mark.parametrize(("model", "kernel"), [("mi300x", "6.12"), *((p.values[0], p.values[1]) for p in COUNTING)])
def test_links_count_what_went_over_them_and_none_leads_to_itself(model: str, kernel: str) -> None:
    card = _on(model, kernel)
    state = replace(_state(card), xgmi_bytes=10_240_000)
    read, written, status = Decoder().decode(gpu_metrics(card, state)).links

    expected = {str(link): 10_240_000 for link in range(1, 8)}
    assert expected == {link: moved for link, moved in link_bytes(read, status).items() if moved}
    assert {9_216_000} == {moved for moved in link_bytes(written, status).values() if moved}


@pytest.mark.parametrize("kernel", ["dkms-6.4", "dkms"])
def test_partitions_have_a_struct_each_and_the_rest_of_them_is_empty(kernel: str) -> None:
    card = _on("mi325x-dpx", kernel)
    fields = parse_gpu_metrics(gpu_metrics(card, _state(card))).fields

    per_partition = [_numbers(fields[f"xcp_stats[{number}].gfx_busy_inst"]) for number in range(8)]
    assert [4, 4, 0, 0, 0, 0, 0, 0] == [sum(value is not None for value in busy) for busy in per_partition]
    assert 2 == fields["num_partition"]


@pytest.mark.parametrize("kernel", ["7.3", "dkms"])
@pytest.mark.parametrize("model", ["mi300x", "mi300x-cpx", "mi325x-dpx"])
def test_a_partition_s_own_file_is_of_its_dies(model: str, kernel: str) -> None:
    card = _on(model, kernel)
    state = _state(card)
    dies = 8 // card.partition_count

    for partition in range(card.partition_count):
        reading = PartitionDecoder().decode(partition_metrics(card, state, partition))
        own = range(partition * dies, (partition + 1) * dies)
        assert max(state.sclk_mhz[die] for die in own) * 1e6 == reading.sclk_hertz
        expected = sum(int(100 * state.busy_gfx) - die % 3 for die in own) / dies / 100
        assert pytest.approx(expected) == reading.busy_ratio


@pytest.mark.parametrize(("kernel", "size"), [("7.3", 626), ("dkms", 488)])
def test_a_partition_s_file_is_where_its_render_node_is(tmp_path: Path, kernel: str, size: int) -> None:
    with SimulatedNode(str(tmp_path), "mi300x-cpx", 1, kernel=kernel) as node:
        sizes = [
            (tmp_path / f"sys/class/drm/renderD{drm.render_minor}/device/xcp/xcp_metrics").stat().st_size
            for drm in node.places[0].partition_nodes(node.model)
        ]

    assert [size] * 8 == sizes


def test_a_file_of_attributes_is_as_long_as_the_driver_s() -> None:
    card = _on("mi300x", "7.3")

    assert 1258 == len(gpu_metrics(card, _state(card)))


def test_a_radeon_counts_its_energy_in_a_unit_of_its_own_which_no_one_shows() -> None:
    card = MODELS["rx7900xtx"]
    state = replace(_state(card), energy_joules=5_000_000.0)
    raw = gpu_metrics(card, state)

    assert 5_000_000_000 % (2**32 - 1) == parse_gpu_metrics(raw).fields["energy_accumulator"]
    assert Decoder().decode(raw).energy is None


def test_a_fan_turns_when_the_card_is_hot(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "rx7900xtx", 1) as node:
        hwmon = tmp_path / node.places[0].hwmon
        names = ("fan1_input", "pwm1")
        idle = [int((hwmon / name).read_text()) for name in names]
        node.step(120)
        hot = [int((hwmon / name).read_text()) for name in names]
        metrics = parse_gpu_metrics((tmp_path / node.places[0].device / "gpu_metrics").read_bytes())

    assert [0, 0] == idle
    assert 500 < hot[0] <= 3200
    assert hot[0] * 255 // 3200 == hot[1]
    assert hot[0] == metrics.fields["current_fan_speed"]
