"""The MI300 and MI350 series: eight compute dies in a package, which can be divided into partitions."""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.models.hosts import INSTINCT_RAS, LARGE_SERVER, SERVER
from rocmwatch.simulate.parts import MIB, Clock, Kfd, Model, Partitioning, Sensor

_RAS = (*INSTINCT_RAS, "ih", "mpio")
_WHOLE = Partitioning(
    compute="SPX", memory="NPS1", count=1, available_compute="SPX, DPX, QPX, CPX", available_memory="NPS1, NPS4"
)

MI300X = Model(
    name="mi300x",
    product="AMD Instinct MI300X OAM",
    host=SERVER,
    kernel=KERNELS["6.12"],
    pci=tuple(f"0000:{bus:02x}:00.0" for bus in (0x05, 0x27, 0x47, 0x65, 0x85, 0xA7, 0xC7, 0xE5)),
    pci_class=0x120000,
    device_id=0x74A1,
    subsystem=(0x1002, 0x74A1),
    revision=0x00,
    vbios="113-SIM300X-001",
    link=("32.0 GT/s PCIe", 16),
    vram_total_bytes=196592 * MIB,
    vram_floor_bytes=284 * MIB,
    gtt_total_bytes=SERVER.memory_bytes // 2,
    pool="vram",
    revisions={
        "6.5": (1, 3),
        "6.8": (1, 5),
        "6.12": (1, 5),
        "7.3": (1, 9),
        "dkms-6.4": (1, 7),
        "dkms": (1, 8),
    },
    sensors=(
        Sensor(
            number=2,
            label="junction",
            lag_seconds=6,
            above_ambient=58,
            limits_celsius=(("crit", 100), ("emergency", 105)),
        ),
        Sensor(
            number=3, label="mem", lag_seconds=20, above_ambient=44, limits_celsius=(("crit", 105), ("emergency", 110))
        ),
    ),
    sclk=Clock(
        label="sclk", dpm_file="pp_dpm_sclk", hwmon_number=1, levels_mhz=(500, 2100), idle_mhz=132, deep_sleep_mhz=140
    ),
    mclk=Clock(label="mclk", dpm_file="pp_dpm_mclk", hwmon_number=2, levels_mhz=(900, 1100, 1200, 1300), idle_mhz=900),
    power_files=("power1_input",),
    power_idle_watts=140,
    power_cap_watts=750,
    power_has_cap=True,
    power_range_watts=(0, 750),
    xcc_count=8,
    kfd=Kfd(
        name="ip discovery",
        gfx_target_version=90402,
        simds_per_xcc=152,
        arrays_per_xcc=4,
        simd_arrays_per_engine=1,
        cus_per_array=10,
        simds_per_cu=4,
        waves_per_simd=8,
        wavefront=64,
        sdma_engines=2,
        memory_width=8192,
        hive=True,
    ),
    xgmi_link=(16, 32),
    board="oam",
    partitioning=_WHOLE,
    ras_blocks=_RAS,
    attributes=(
        ("mem_info_vram_vendor", "hynix"),
        ("mem_info_preempt_used", "0"),
        ("pcie_replay_count", "0"),
        ("pp_dpm_socclk", "0: 29Mhz *"),
        ("pp_dpm_fclk", "0: 1200Mhz *\n1: 1600Mhz \n2: 1800Mhz \n3: 2000Mhz "),
        ("pp_dpm_pcie", "0: 32.0GT/s, x16 *"),
        ("pp_features", "features high: 0x00000007 low: 0x1fffe7ff"),
        ("pp_num_states", "states: 1\n0 default"),
        ("power_dpm_force_performance_level", "auto"),
        ("power_dpm_state", "performance"),
        ("reset_method", "mode1"),
        ("enforce_isolation", "0"),
    ),
    forbidden=(
        ("pcie_bw", "0 0 256"),
        ("pm_metrics", "\x00" * 64),
        ("pp_table", "\x00" * 32),
        ("xgmi_error", "0"),
    ),
)


MI300X_CPX = replace(MI300X, name="mi300x-cpx", partitioning=replace(_WHOLE, compute="CPX", count=8))

MI300X_NPS4 = replace(MI300X, name="mi300x-nps4", partitioning=replace(_WHOLE, compute="CPX", memory="NPS4", count=8))

MI325X = replace(
    MI300X,
    name="mi325x",
    product="AMD Instinct MI325X OAM",
    revisions={kernel: MI300X.revisions[kernel] for kernel in ("6.8", "6.12", "7.3", "dkms-6.4", "dkms")},
    device_id=0x74A5,
    subsystem=(0x1002, 0x74A5),
    vbios="113-SIM325X-001",
    vram_total_bytes=262128 * MIB,
    mclk=replace(MI300X.mclk, levels_mhz=(900, 1100, 1300, 1500)),
    power_idle_watts=150,
    power_cap_watts=1000,
    power_range_watts=(0, 1000),
)

MI325X_DPX = replace(MI325X, name="mi325x-dpx", partitioning=replace(_WHOLE, compute="DPX", count=2))

MI355X = replace(
    MI300X,
    name="mi355x",
    product="AMD Instinct MI355X OAM",
    host=LARGE_SERVER,
    kernel=KERNELS["7.3"],
    revisions={kernel: MI300X.revisions[kernel] for kernel in ("7.3", "dkms")},
    pci=tuple(f"0000:{bus:02x}:00.0" for bus in (0x05, 0x15, 0x65, 0x75, 0x85, 0x95, 0xE5, 0xF5)),
    device_id=0x75A3,
    subsystem=(0x1002, 0x75A3),
    vbios="113-SIM355X-001",
    vram_total_bytes=294896 * MIB,
    gtt_total_bytes=LARGE_SERVER.memory_bytes // 2,
    sclk=replace(MI300X.sclk, levels_mhz=(500, 2400)),
    mclk=replace(MI300X.mclk, levels_mhz=(900, 1300, 1600, 2000)),
    power_idle_watts=230,
    power_cap_watts=1400,
    power_range_watts=(0, 1400),
    kfd=replace(MI300X.kfd, gfx_target_version=90500, simds_per_xcc=128, cus_per_array=9),
    xgmi_link=(16, 38),
    partitioning=replace(_WHOLE, available_memory="NPS1, NPS2"),
)
