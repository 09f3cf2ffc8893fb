from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.judge.attribution import (
    Balance,
    FloorKey,
    Floors,
    Rest,
    balance,
    floor_key,
    looks_like_a_driver_leak,
    node_attribution,
    rest_of,
)
from rocmwatch.model import (
    Action,
    Attribution,
    Gpu,
    GpuProcess,
    GpuReading,
    GpuSample,
    GpuState,
    Held,
    Holder,
    HolderClass,
    Owner,
    Pool,
    Use,
)

MIB, GIB = 1 << 20, 1 << 30
TOTAL = 192 * GIB
PCI = "0000:05:00.0"
KEY = FloorKey(PCI, "SPX/NPS1", "6.16.6")
COMPLETE, PARTIAL, UNKNOWN = Attribution.COMPLETE, Attribution.PARTIAL, Attribution.UNKNOWN


def reading(used: int | None) -> GpuReading:
    gpu = Gpu(gpu="0", pci=PCI, pool=Pool.VRAM, compute_partition="SPX", memory_partition="NPS1")
    return GpuReading(gpu=gpu, state=GpuState.ACTIVE, sample=GpuSample(vram_total_bytes=TOTAL, vram_used_bytes=used))


def holder(size: int, **changes: object) -> Holder:
    process = replace(GpuProcess(pid=1, uses=(Use(pci=PCI, kfd_bytes=size),)), **changes)  # type: ignore[arg-type]
    held = (Held(pci=PCI, partition=None, bytes=size),) if size else ()
    return Holder(
        process=process,
        holder_class=HolderClass.FOREIGN,
        owner=Owner(),
        held=held,
        reason="",
        action=Action.NONE,
    )


class TestRest:
    def test_what_holders_have_is_taken_off(self) -> None:
        rest = rest_of(reading(100 * GIB), [holder(90 * GIB)], all_seen=True)

        assert (COMPLETE, 10 * GIB) == (rest.attribution, rest.left_bytes)

    def test_a_little_more_than_is_used_is_read_at_another_moment(self) -> None:
        rest = rest_of(reading(100 * GIB), [holder(101 * GIB)], all_seen=True)

        assert (COMPLETE, 0) == (rest.attribution, rest.left_bytes)

    @pytest.mark.parametrize(
        ("used", "its", "all_seen", "expected"),
        [
            (100 * GIB, holder(102 * GIB), True, PARTIAL),
            (100 * GIB, holder(1 * GIB), False, PARTIAL),
            (100 * GIB, holder(1 * GIB, may_look=False), True, PARTIAL),
            (100 * GIB, holder(0, has_queues=True), True, UNKNOWN),
            (None, holder(1 * GIB), True, UNKNOWN),
            (100 * GIB, None, True, UNKNOWN),
        ],
    )
    def test_what_cannot_be_trusted_leaves_nothing(
        self, used: int | None, its: Holder | None, all_seen: bool, expected: Attribution
    ) -> None:
        rest = rest_of(reading(used), None if its is None else [its], all_seen=all_seen)

        assert (expected, None) == (rest.attribution, rest.left_bytes)

    def test_the_node_is_as_good_as_its_worst_gpu(self) -> None:
        def rest(attribution: Attribution) -> Rest:
            return Rest(1, 0, attribution)

        assert UNKNOWN == node_attribution([rest(COMPLETE), rest(UNKNOWN), rest(PARTIAL)])
        assert PARTIAL == node_attribution([rest(COMPLETE), rest(PARTIAL)])
        assert COMPLETE == node_attribution([])


def run(*lefts: int | None, step: float = 100.0, floors: Floors | None = None) -> list[Balance]:
    """The balances of scans that find so much left over."""
    floors, found = floors or Floors(), []
    for number, left in enumerate(lefts):
        rest = Rest(left, 0, COMPLETE if left is not None else PARTIAL)
        floors, balances = balance(floors, {KEY: (rest, TOTAL)}, number * step)
        found.append(balances[PCI])
    return found


class TestBalance:
    def test_what_an_idle_gpu_uses_is_its_floor(self) -> None:
        assert [Balance(284 * MIB, 0)] == run(284 * MIB)

    def test_the_floor_is_the_least_that_was_seen(self) -> None:
        assert [300, 284, 284] == [
            one.floor_bytes and one.floor_bytes // MIB for one in run(300 * MIB, 284 * MIB, 500 * MIB)
        ]

    def test_a_floor_is_never_high_and_what_is_above_is_unowned_from_the_first_scan(self) -> None:
        """46 GiB on an MI325X that nobody had used since the service came up."""
        assert [Balance(GIB, 0)] * 3 + [Balance(GIB, 45 * GIB)] == run(*[46 * GIB] * 4)

    def test_memory_that_comes_back_late_was_never_unowned(self) -> None:
        lazy = [165 * GIB, 165 * GIB, 120 * GIB, 40 * GIB, 0, 0]

        assert [0] * 6 == [one.unowned_bytes for one in run(*lazy, step=50.0)]

    def test_what_is_short_of_the_threshold_is_not_told(self) -> None:
        assert [0] * 5 == [one.unowned_bytes for one in run(0, *[int(1.9 * GIB)] * 4)]

    def test_a_doubt_says_nothing_and_does_not_start_the_time_anew(self) -> None:
        assert [0, 0, None, 45 * GIB] == [one.unowned_bytes for one in run(46 * GIB, 46 * GIB, None, 46 * GIB)]

    def test_another_mode_has_a_floor_of_its_own(self) -> None:
        gpu = reading(1)
        other = replace(gpu, gpu=replace(gpu.gpu, compute_partition="CPX"))

        assert FloorKey(PCI, "SPX/NPS1", "6.16.6") == floor_key(gpu, "6.16.6")
        assert FloorKey(PCI, "CPX/NPS1", "-") == floor_key(other, None)

    @given(st.lists(st.one_of(st.none(), st.integers(0, TOTAL)), max_size=20))
    def test_nothing_is_unowned_that_is_not_left_over(self, lefts: list[int | None]) -> None:
        for left, one in zip(lefts, run(*lefts), strict=True):
            assert (one.unowned_bytes is None) == (left is None)
            assert one.floor_bytes is None or 0 <= one.floor_bytes <= GIB
            if left is not None:
                assert 0 <= (one.unowned_bytes or 0) <= left


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [((45, 45, 45), True), ((45, 44.5), True), ((45, 30), False), ((45, 0), False), ((45,), False), ((), False)],
)
def test_the_same_rest_on_every_gpu_is_a_leak_of_the_driver(amounts: tuple[float, ...], expected: bool) -> None:
    balances = {str(number): Balance(0, int(amount * GIB)) for number, amount in enumerate(amounts)}

    assert expected is looks_like_a_driver_leak(balances)
