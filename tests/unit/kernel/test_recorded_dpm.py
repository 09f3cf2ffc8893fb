import pytest

from rocmwatch.kernel.dpm import current_hertz, highest_hertz, parse_dpm

pytestmark = pytest.mark.recorded

# what a person reads in the odd ones, MHz
SEEN = {
    "amdgpu-sysfs-rs/rx6950xt/pp_dpm_sclk": (0, None),
    "lact/r7-240/card1/device/pp_dpm_sclk": (None, None),
    "lact/rx5500xt/card1/device/pp_dpm_sclk": (0, 1900),
    "lact/rx5700xt/card1/device/pp_dpm_sclk": (None, 1900),
    "lact/rx580/card0/device/pp_dpm_sclk": (900, 1366),
    "lact/rx6600xt/card0/device/pp_dpm_sclk": (0, None),
    "lact/rx6900xt/card0/device/pp_dpm_fclk": (1302, 1941),
    "lact/rx7600s/card1/device/pp_dpm_sclk": (0, 1841),
    "lact/rx7800xt/card1/device/pp_dpm_sclk": (77, 2254),
    "lact/rx9070/card1/device/pp_dpm_sclk": (789, 2070),
    "procfs/vega-card0/card0/device/pp_dpm_pcie": (None, None),
    "procfs/vega-card0/card0/device/pp_dpm_sclk": (852, 1630),
}


def test_every_recorded_file_is_understood(recorded):
    files = sorted(recorded.rglob("pp_dpm_*"))
    assert len(files) >= 75
    for file in files:
        raw = file.read_bytes()
        levels = parse_dpm(raw).levels
        assert raw.lower().count(b"mhz") == len(levels), file
        if "pcie" not in file.name:
            assert raw.count(b"*") == sum(level.current for level in levels), file


@pytest.mark.parametrize("name", sorted(SEEN))
def test_the_odd_ones_mean_what_a_person_reads(recorded, name):
    levels = parse_dpm((recorded / name).read_bytes()).levels
    expected = tuple(None if megahertz is None else megahertz * 1_000_000 for megahertz in SEEN[name])
    assert expected == (current_hertz(levels), highest_hertz(levels))
