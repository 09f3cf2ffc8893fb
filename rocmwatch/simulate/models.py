"""The GPUs that can be simulated, as data. What one has and another lacks is a field here, not a branch elsewhere.

Sizes and names are those of the real products; serial numbers, firmware and board names are invented.
"""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.parts import GIB, MIB, Clock, Host, Kfd, Model, Partitioning, Sensor

LINUX_6_12 = KERNELS["6.12"]

_SERVER = Host(sockets=2, cores=96, memory_bytes=1536 * GIB, cpu_clock_mhz=3700)
_WORKSTATION = Host(sockets=1, cores=16, memory_bytes=125 * GIB, cpu_clock_mhz=5100)

_INSTINCT_RAS = ("umc", "sdma", "gfx", "mmhub", "pcie_bif", "hdp", "xgmi_wafl")

_MI210 = Model(
    name="mi210",
    product="AMD Instinct MI210",
    host=_SERVER,
    kernel=LINUX_6_12,
    pci=tuple(f"0000:{bus:02x}:00.0" for bus in (0x03, 0x23, 0x43, 0x63, 0x83, 0xA3, 0xC3, 0xE3)),
    pci_class=0x038000,
    device_id=0x740F,
    subsystem=(0x1002, 0x0C34),
    revision=0x02,
    vbios="113-SIM210-001",
    link=("16.0 GT/s PCIe", 16),
    vram_total_bytes=65520 * MIB,
    vram_floor_bytes=11 * MIB,
    gtt_total_bytes=_SERVER.memory_bytes // 2,
    pool="vram",
    revisions=dict.fromkeys(KERNELS, (1, 3)),
    sensors=(
        Sensor(
            number=1, label="edge", lag_seconds=25, above_ambient=38, limits_celsius=(("crit", 100), ("emergency", 105))
        ),
        Sensor(
            number=2,
            label="junction",
            lag_seconds=8,
            above_ambient=52,
            limits_celsius=(("crit", 100), ("emergency", 105)),
        ),
        Sensor(
            number=3, label="mem", lag_seconds=30, above_ambient=41, limits_celsius=(("crit", 95), ("emergency", 100))
        ),
    ),
    sclk=Clock(
        label="sclk", dpm_file="pp_dpm_sclk", hwmon_number=1, levels_mhz=(500, 1700), idle_mhz=800, fine_grained=True
    ),
    mclk=Clock(label="mclk", dpm_file="pp_dpm_mclk", hwmon_number=2, levels_mhz=(400, 700, 1200, 1600), idle_mhz=1600),
    power_files=("power1_average",),
    power_idle_watts=41,
    power_cap_watts=300,
    power_has_cap=True,
    xcc_count=1,
    kfd=Kfd(
        name="aldebaran",
        gfx_target_version=90010,
        simds_per_xcc=416,
        arrays_per_xcc=8,
        simd_arrays_per_engine=1,
        cus_per_array=14,
        simds_per_cu=4,
        waves_per_simd=8,
        wavefront=64,
        sdma_engines=2,
        memory_width=4096,
    ),
    voltages=((0, "vddgfx"),),
    board="cem",
    ras_blocks=_INSTINCT_RAS,
    attributes=(
        ("mem_info_vram_vendor", "samsung"),
        ("mem_info_preempt_used", "0"),
        ("pcie_replay_count", "0"),
        ("pp_dpm_socclk", "0: 1090Mhz *"),
        ("pp_dpm_fclk", "0: 400Mhz \n1: 1600Mhz *"),
        ("pp_dpm_pcie", "0: 16.0GT/s, x16 *"),
        ("pp_features", "features high: 0x0000004e low: 0xfecfb77f"),
        ("pp_num_states", "states: 1\n0 default"),
        ("power_dpm_force_performance_level", "auto"),
        ("power_dpm_state", "performance"),
        ("thermal_throttling_logging", "thermal throttling logging enabled, with interval 60 seconds"),
        ("reset_method", "bus"),
    ),
    forbidden=(("pcie_bw", "0 0 256"), ("pp_table", "\x00" * 32)),
)

_MI300X = Model(
    name="mi300x",
    product="AMD Instinct MI300X OAM",
    host=_SERVER,
    kernel=LINUX_6_12,
    pci=tuple(f"0000:{bus:02x}:00.0" for bus in (0x05, 0x27, 0x47, 0x65, 0x85, 0xA7, 0xC7, 0xE5)),
    pci_class=0x120000,
    device_id=0x74A1,
    subsystem=(0x1002, 0x74A1),
    revision=0x00,
    vbios="113-SIM300X-001",
    link=("32.0 GT/s PCIe", 16),
    vram_total_bytes=196592 * MIB,
    vram_floor_bytes=284 * MIB,
    gtt_total_bytes=_SERVER.memory_bytes // 2,
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
    sclk=Clock(label="sclk", dpm_file="pp_dpm_sclk", hwmon_number=1, levels_mhz=(500, 2100), idle_mhz=132),
    mclk=Clock(label="mclk", dpm_file="pp_dpm_mclk", hwmon_number=2, levels_mhz=(900, 1100, 1200, 1300), idle_mhz=900),
    power_files=("power1_input",),
    power_idle_watts=140,
    power_cap_watts=750,
    power_has_cap=True,
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
    board="oam",
    partitioning=Partitioning(compute="SPX", memory="NPS1", count=1, available_compute="SPX, DPX, QPX, CPX"),
    ras_blocks=_INSTINCT_RAS,
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

_MI300X_CPX = replace(
    _MI300X,
    name="mi300x-cpx",
    partitioning=Partitioning(compute="CPX", memory="NPS1", count=8, available_compute="SPX, DPX, QPX, CPX"),
)

_APU_GTT = 64163 * MIB

_APU = Model(
    name="apu",
    product="AMD Radeon Graphics (unified memory)",
    host=_WORKSTATION,
    kernel=LINUX_6_12,
    pci=("0000:c1:00.0",),
    pci_class=0x038000,
    device_id=0x150E,
    subsystem=(0x1002, 0x0124),
    revision=0xC4,
    vbios="113-SIMAPU-001",
    link=("16.0 GT/s PCIe", 16),
    vram_total_bytes=512 * MIB,
    vram_floor_bytes=491 * MIB,
    gtt_total_bytes=_APU_GTT,
    pool="gtt",
    revisions=dict.fromkeys(("6.8", "6.12", "7.3"), (3, 0)),
    sensors=(Sensor(number=1, label="edge", lag_seconds=12, above_ambient=42),),
    sclk=Clock(
        label="sclk", dpm_file="pp_dpm_sclk", hwmon_number=1, levels_mhz=(600, 2900), idle_mhz=600, fine_grained=True
    ),
    mclk=Clock(label="mclk", dpm_file="pp_dpm_mclk", hwmon_number=None, levels_mhz=(400, 800, 1000), idle_mhz=400),
    power_files=("power1_average", "power1_input"),
    power_idle_watts=6,
    power_cap_watts=54,
    power_has_cap=False,
    xcc_count=1,
    kfd=Kfd(
        name="ip discovery",
        gfx_target_version=110500,
        simds_per_xcc=24,
        arrays_per_xcc=2,
        simd_arrays_per_engine=2,
        cus_per_array=8,
        simds_per_cu=2,
        waves_per_simd=16,
        wavefront=32,
        sdma_engines=1,
        memory_width=128,
    ),
    voltages=((0, "vddgfx"), (1, "vddnb")),
    has_unique_id=False,
    has_memory_busy=False,
    attributes=(
        ("mem_info_preempt_used", "0"),
        ("pp_dpm_socclk", "0: 600Mhz *\n1: 736Mhz \n2: 1472Mhz "),
        ("pp_dpm_fclk", "0: 400Mhz *\n1: 1200Mhz \n2: 1960Mhz "),
        ("pp_num_states", "states: 1\n0 default"),
        ("power_dpm_force_performance_level", "auto"),
        ("power_dpm_state", "performance"),
    ),
)

MODELS: dict[str, Model] = {model.name: model for model in (_MI210, _MI300X, _MI300X_CPX, _APU)}
