"""The MI200 series: one die a device. An MI250X has two of them in a package, and only the first reports power."""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.models.hosts import BLADE, INSTINCT_RAS, SERVER
from rocmwatch.simulate.parts import MIB, Clock, Kfd, Model, Sensor

_KFD = Kfd(
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
)

MI210 = Model(
    name="mi210",
    product="AMD Instinct MI210",
    host=SERVER,
    kernel=KERNELS["6.12"],
    revisions=dict.fromkeys(KERNELS, (1, 3)),
    pci=tuple(f"0000:{bus:02x}:00.0" for bus in (0x03, 0x23, 0x43, 0x63, 0x83, 0xA3, 0xC3, 0xE3)),
    pci_class=0x038000,
    device_id=0x740F,
    subsystem=(0x1002, 0x0C34),
    revision=0x02,
    vbios="113-SIM210-001",
    link=("16.0 GT/s PCIe", 16),
    vram_total_bytes=65520 * MIB,
    vram_floor_bytes=11 * MIB,
    gtt_total_bytes=SERVER.memory_bytes // 2,
    pool="vram",
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
    power_range_watts=(0, 300),
    xcc_count=1,
    kfd=_KFD,
    hbm_sensors=4,
    voltages=((0, "vddgfx"),),
    board="cem",
    ras_blocks=INSTINCT_RAS,
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

MI250X = replace(
    MI210,
    name="mi250x",
    product="AMD Instinct MI250X",
    host=BLADE,
    pci=tuple(f"0000:{bus:02x}:00.0" for bus in (0xC1, 0xC6, 0xC9, 0xCE, 0xD1, 0xD6, 0xD9, 0xDE)),
    device_id=0x7408,
    subsystem=(0x1002, 0x0B0C),
    revision=0x01,
    vbios="113-SIM250X-001",
    gtt_total_bytes=BLADE.memory_bytes // 2,
    power_idle_watts=92,  # of a package, and so for the others
    power_cap_watts=560,
    power_range_watts=(0, 560),
    dies_per_package=2,
    kfd=replace(_KFD, simds_per_xcc=440, hive=True),
    board="oam",
    forbidden=(*MI210.forbidden, ("xgmi_error", "0")),
)
