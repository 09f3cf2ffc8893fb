"""Views made by hand, for the tests of serve/."""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.model import (
    Action,
    Attribution,
    Balance,
    CgroupVram,
    Fault,
    Fragmentation,
    Gpu,
    GpuEvents,
    GpuProcess,
    GpuReading,
    GpuSample,
    GpuState,
    Held,
    Holder,
    HolderClass,
    Holdings,
    Limits,
    Owner,
    OwnerKind,
    Partition,
    PartitionSample,
    PcieLink,
    Pool,
    Pressure,
    ReaderStatus,
    Snapshot,
    SourceStatus,
    Use,
    View,
    frozen,
)

GIB = 1024**3
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
FIELDS = (
    *("vram_total_bytes", "vram_used_bytes", "visible_vram_total_bytes", "visible_vram_used_bytes"),
    *("gtt_total_bytes", "gtt_used_bytes", "temperature_edge", "temperature_junction", "temperature_memory"),
    *("clock_sclk", "clock_mclk", "power", "energy", "busy_gfx", "busy_memory", "gpu_metrics", "fragmentation"),
)


def gpu(number: int = 0, **changes: object) -> Gpu:
    """An MI210."""
    plain = Gpu(
        gpu=str(number),
        pci=f"0000:{5 + 32 * number:02x}:00.0",
        pool=Pool.VRAM,
        product="Instinct MI210",
        device_id="0x740f",
        unique_id=f"0x{0x9246A100 + number:x}",
        serial=f"6922110012{number:02}",
        vbios="113-D67301-063",
        numa_node=number // 4,
        kfd_gpu_id=40000 + number,
        fields=frozen(dict.fromkeys(FIELDS, True)),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def sample(**changes: object) -> GpuSample:
    """What an MI210 says of itself under load."""
    plain = GpuSample(
        vram_total_bytes=64 * GIB,
        vram_used_bytes=48 * GIB,
        visible_vram_total_bytes=64 * GIB,
        visible_vram_used_bytes=48 * GIB,
        gtt_total_bytes=126 * GIB,
        gtt_used_bytes=15_000_000,
        temperatures_celsius=frozen({"edge": 51.0, "junction": 63.0, "memory": 58.0}),
        clocks_hertz=frozen({"sclk": 1.7e9, "mclk": 1.6e9}),
        busy_ratio=frozen({"gfx": 0.97, "memory": 0.41}),
        power_watts=241.0,
        energy_joules=123_456.789,
        throttled=frozen({"power": 1, "current": 0, "thermal": 0, "prochot": 0}),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


LIMITS = Limits(
    temperatures_celsius=frozen({("junction", "critical"): 100.0, ("junction", "emergency"): 105.0}),
    clocks_hertz=frozen({"sclk": 1.7e9, "mclk": 1.6e9}),
    power_cap_watts=300.0,
)
TABLE = Fragmentation(
    free_bytes=16 * GIB,
    allocatable_bytes=15 * GIB,
    ratio=0.0625,
    largest_free_block_bytes=8 * GIB,
    free_blocks=frozen({0: 12, 8: 1020, 9: 7, 21: 1}),
)


LINK = PcieLink(width=16, max_width=16, transfers_per_second=16e9, max_transfers_per_second=16e9, replays=3)
ERRORS = frozen({("umc", "correctable"): 12, ("umc", "uncorrectable"): 0, ("gfx", "uncorrectable"): 1})
EVENTS = GpuEvents(states=frozen({state: int(state is GpuState.STALLED) for state in GpuState}))


def reading(number: int = 0, **changes: object) -> GpuReading:
    """A healthy MI210."""
    plain = GpuReading(
        gpu=gpu(number),
        state=GpuState.ACTIVE,
        sample=sample(),
        limits=LIMITS,
        fragmentation=TABLE,
        sampled_at=NOW - 2,
        sensors_at=NOW - 2,
        fragmentation_at=NOW - 40,
        pcie=LINK,
        ras_errors=ERRORS,
        ras_at=NOW - 200,
        events=EVENTS,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def mi300x_cpx(number: int = 0) -> GpuReading:
    """An MI300X that is split into eight partitions."""
    share = 192 * GIB // 8
    return GpuReading(
        gpu=gpu(
            number,
            product="Instinct MI300X",
            device_id="0x74a1",
            compute_partition="CPX",
            memory_partition="NPS1",
            partitions=tuple(
                Partition(
                    partition=str(part),
                    kfd_gpu_id=50000 + 8 * number + part,
                    render_minor=128 + 8 * number + part,
                    xcc_count=1,
                    vram_total_bytes=share,
                    vram_used_bytes=part * GIB,
                )
                for part in range(8)
            ),
        ),
        state=GpuState.ACTIVE,
        sample=sample(
            vram_total_bytes=192 * GIB,
            vram_used_bytes=28 * GIB,
            visible_vram_total_bytes=192 * GIB,
            visible_vram_used_bytes=28 * GIB,
            temperatures_celsius=frozen({"junction": 71.0, "memory": 62.0}),
            xcc_clocks_hertz=frozen({str(die): 2.1e9 - 1e6 * die for die in range(8)}),
            throttled=frozen({}),
            throttle_ratio=frozen({"prochot": 0.0, "power": 0.25, "socket_thermal": 0.0, "hbm_thermal": 0.01}),
            xgmi_read_bytes=frozen({"0": 0, "1": 93_424_196_608}),
            xgmi_write_bytes=frozen({"0": 0, "1": 83_184_196_608}),
            partitions=frozen(
                {str(part): PartitionSample(busy_ratio=part / 8, sclk_hertz=2.1e9 - 1e6 * part) for part in range(8)}
            ),
        ),
        limits=replace(LIMITS, power_cap_watts=750.0),
        fragmentation=replace(TABLE, free_blocks=frozen({order: 3 * order for order in range(19)})),
        sampled_at=NOW - 2,
        sensors_at=NOW - 2,
        fragmentation_at=NOW - 40,
        pcie=replace(LINK, transfers_per_second=32e9, max_transfers_per_second=32e9),
        ras_errors=frozen({**ERRORS, ("umc", "deferred"): 2}),
        ras_at=NOW - 200,
        pressure=Pressure(evicted_bytes=GIB, requested_bytes=29 * GIB, evicted_seconds=12.5, page_faults=1_000_000),
        events=replace(EVENTS, wedged=frozen({"none": 1, "rebind": 2}), partition_changes=1),
    )


def view(*gpus: GpuReading, **changes: object) -> View:
    """A view of these GPUs, two seconds old at NOW."""
    snapshot = Snapshot(
        sequence=7,
        taken_at=NOW - 2,
        gpus=gpus,
        sources=frozen(
            {
                "memory": SourceStatus(last_success_at=NOW - 2, duration_seconds=0.004),
                "sensors": SourceStatus(last_success_at=NOW - 2, duration_seconds=0.011),
                "fragmentation": SourceStatus(last_success_at=NOW - 40, duration_seconds=0.002),
                "topology": SourceStatus(last_success_at=None, duration_seconds=None),
            }
        ),
        readers=ReaderStatus(restarts=1, abandoned=0, fault_counts=frozen({("vram_used_bytes", "EIO"): 3})),
        driver_version="6.12.12",
        notes=("debugfs cannot be read: no fragmentation",),
    )
    return View(
        snapshot=replace(snapshot, **changes),  # type: ignore[arg-type]
        version="0.1.0",
        started_at=NOW - 3700,
        hostname="node7",
        root="/",
        config_loaded_at=NOW - 3700,
    )


def holdings() -> Holdings:
    """Of an engine that works, and of one that outlived its service."""
    unit = Owner(kind=OwnerKind.UNIT, name="vllm@0.service")
    held = tuple(Held(pci=gpu(0).pci, partition=str(part), bytes=GIB) for part in range(2))
    uses = (Use(pci=gpu(0).pci, partition="0"), Use(pci=gpu(0).pci, partition="1"))
    engine = Holder(
        process=GpuProcess(pid=4242, start_time=7, comm="VLLM::EngineCor", state="S", parent=1, uid=0, uses=uses),
        holder_class=HolderClass.OWNED,
        owner=unit,
        held=held,
        reason="vllm@0.service is active",
        action=Action.NONE,
        age_seconds=4000.0,
    )
    balance = Balance(
        pci=gpu(0).pci, attribution=Attribution.PARTIAL, held_bytes=2 * GIB, idle_floor_bytes=GIB, idle_seconds=60.0
    )
    left = replace(engine, holder_class=HolderClass.ORPHAN, action=Action.TERMINATE, owner=Owner())
    balances = (
        replace(balance, attribution=Attribution.COMPLETE, unowned_bytes=0),
        Balance(pci=gpu(1).pci, attribution=Attribution.PARTIAL),
    )
    return Holdings(attribution=Attribution.PARTIAL, holders=(engine, left), balances=balances)


def every_state() -> View:
    """One GPU in each state, one of them partitioned, one an APU, one that nothing is known about."""
    stale = {"fragmentation": TABLE, "limits": LIMITS}
    made = view(
        mi300x_cpx(0),
        reading(1, state=GpuState.SUSPENDED, sample=GpuSample(vram_total_bytes=64 * GIB, vram_used_bytes=12_000_000)),
        reading(2, state=GpuState.STALLED, sample=None, **stale),
        reading(
            3,
            state=GpuState.RESETTING,
            sample=GpuSample(vram_total_bytes=64 * GIB),
            faults=(Fault(source="temperature_junction", errno="EBUSY", path="/sys/class/hwmon/hwmon3/temp2_input"),),
        ),
        reading(4, state=GpuState.LOST, sample=None, **stale),
        reading(
            5,
            gpu=gpu(5, product="Strix Halo", pool=Pool.GTT, serial=None, vbios=None, numa_node=None),
            sample=sample(
                vram_total_bytes=GIB, vram_used_bytes=GIB // 2, gtt_total_bytes=120 * GIB, gtt_used_bytes=GIB
            ),
        ),
        GpuReading(gpu=Gpu(gpu="6", pci="0000:c9:00.0", pool=Pool.VRAM), state=GpuState.ACTIVE),
        cgroups=(
            CgroupVram(cgroup="/system.slice/vllm.service", pci="0000:05:00.0", bytes=27 * GIB),
            CgroupVram(cgroup="/user.slice", pci="0000:05:00.0", bytes=0),
            CgroupVram(cgroup="/system.slice/vllm.service", pci="0000:ff:00.0", bytes=GIB),
        ),
    )
    return replace(made, holdings=holdings())


def hostile() -> View:
    """Names that nobody should give, and that somebody will."""
    nasty = 'a"b\\c\nd\x1b[31m</td><script>alert(1)</script>\udcff\u202ex'
    return view(
        reading(
            0,
            gpu=gpu(0, product=nasty, serial="\x00"),
            events=GpuEvents(wedged=frozen({nasty: 1})),
        ),
        notes=(nasty,),
        cgroups=(CgroupVram(cgroup=f"/{nasty}", pci="0000:05:00.0", bytes=1),),
    )
