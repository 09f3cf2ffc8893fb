import json
import re
import struct

import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.gpu_metrics import Decoder, parse_gpu_metrics, parse_xcp_metrics
from rocmwatch.kernel.hwmon import plan
from rocmwatch.kernel.number import parse_number
from rocmwatch.kernel.xcp_metrics import PartitionDecoder
from rocmwatch.kernel.xgmi import link_bytes

pytestmark = pytest.mark.recorded

FORMATS = {
    "phoenix": (2, 1),
    "rx6900xt": (1, 3),
    "rx7600s": (1, 3),
    "rx7800xt": (1, 3),
    "rx9070": (1, 3),
    "strixpoint": (3, 0),
}
# A file and the hwmon files beside it were read at slightly different moments: how far they may be apart.
APART = {"temperature": 1.0, "power": 1.0, "clock": 2e6}
# Two differ by their meaning: graphics that are off clock 0 in hwmon; an APU's metrics are an average.
UNEQUAL = {("rx7600s", "clock_sclk")}
SYNTHETIC = (
    "allff_header_valid",
    "v1_0_mi50_power_zero",
    "v1_3_mi250x_primary",
    "v1_3_mi250x_secondary_die",
    "v1_4_mi300x",
    "v1_5_mi300x",
    "v1_6_mi300x_spx",
    "v1_8_mi300x_spx",
    "v1_9_mi300x",
    "xcp_metrics_v1_1_mi300x_cpx_partition",
)


def device_of(recorded, card):
    (device,) = (recorded / "lact" / card).glob("card*/device")
    return device


def hwmon_values(device):
    (folder,) = (device / "hwmon").iterdir()
    files = {path.name: path.read_bytes() if path.name.endswith("_label") else b"" for path in folder.iterdir()}
    return {
        reading.name: parse_number((folder / reading.file).read_bytes(), reading.low, reading.high) * reading.scale
        for reading in plan(files).readings
    }


def synthetic(recorded, name):
    folder = recorded / "synthetic" / "gpu_metrics"
    return (folder / f"{name}.bin").read_bytes(), json.loads((folder / f"{name}.expected.json").read_text())


def nested(fields):
    """The fields as the expectation has them: lists, and a list of structs for `xcp_stats[0].name`."""
    result = {}
    for name, value in fields.items():
        plain = list(value) if isinstance(value, tuple) else value
        member = re.fullmatch(r"(\w+)\[(\d+)\]\.(\w+)", name)
        if member is None:
            result[name] = plain
            continue
        structs = result.setdefault(member[1], [])
        if len(structs) == int(member[2]):
            structs.append({})
        structs[-1][member[3]] = plain
    return result


@pytest.mark.parametrize("card", sorted(FORMATS))
def test_the_metrics_agree_with_the_hwmon_files_beside_them(recorded, card):
    device = device_of(recorded, card)
    raw = (device / "gpu_metrics").read_bytes()
    assert FORMATS[card] == parse_gpu_metrics(raw)[:2]
    reading = Decoder().decode(raw)._asdict()
    beside = hwmon_values(device)
    for name, value in beside.items():
        if (card, name) not in UNEQUAL:
            assert reading[name] == pytest.approx(value, rel=0, abs=APART[name.split("_", maxsplit=1)[0]]), name


@pytest.mark.parametrize("card", sorted(FORMATS))
def test_no_recorded_card_counts_energy_in_a_known_unit(recorded, card):
    assert Decoder().decode((device_of(recorded, card) / "gpu_metrics").read_bytes()).energy is None


def test_a_radeon_s_energy_is_no_multiple_of_15_uj(recorded):
    """Why energy is left out: taken as millijoules this counter is the power that hwmon shows, as 2^-16 J it is not."""
    fields = parse_gpu_metrics((device_of(recorded, "rx6900xt") / "gpu_metrics").read_bytes()).fields
    watts_if_millijoules = fields["energy_accumulator"] * 1e-3 / (fields["system_clock_counter"] * 1e-9)
    watts_if_2_16 = fields["energy_accumulator"] * 2**-16 / (fields["system_clock_counter"] * 1e-9)
    assert 30 < watts_if_millijoules < 40
    assert watts_if_2_16 < 1


def test_activity_is_near_the_kernel_s_own(recorded):
    for card in sorted(FORMATS):
        device = device_of(recorded, card)
        own = parse_number((device / "gpu_busy_percent").read_bytes(), 0, 100)
        busy = Decoder().decode((device / "gpu_metrics").read_bytes()).busy_gfx
        if card == "strixpoint":
            assert busy is None
        elif card != "rx7800xt":  # read at a busier moment
            assert busy == pytest.approx(own / 100, rel=0, abs=0.01), card


def test_a_radeon_of_another_project_is_read(recorded):
    reading = Decoder().decode((recorded / "mangohud" / "gpu_metrics").read_bytes())
    assert reading[:10] == (36.0, 49.0, 36.0, 33.0, None, 0.64, 0.06, 2.165e9, 1.0e9, ())


def test_a_mangled_file_is_refused(recorded):
    raw = (recorded / "mangohud" / "gpu_metrics_invalid").read_bytes()
    with pytest.raises(ParseError) as caught:
        Decoder().decode(raw)
    assert caught.value.errno == "EBADMSG"


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_field_is_the_expected_one(recorded, name):
    raw, expected = synthetic(recorded, name)
    parsed = parse_xcp_metrics(raw) if name.startswith("xcp") else parse_gpu_metrics(raw)
    if "note" in expected:
        assert {None} == {
            one for value in parsed.fields.values() for one in (value if isinstance(value, tuple) else (value,))
        }
        return
    assert (expected.pop("format_revision"), expected.pop("content_revision")) == parsed[:2]
    assert expected.pop("structure_size") == int.from_bytes(raw[:2], "little")
    expected.pop("attr_count", None)
    found = nested(parsed.fields)
    assert expected == {field: value for field, value in found.items() if field in expected}
    assert {field for field in found if field not in expected} <= {"padding", "padding1", "jpeg_activity"}


def test_a_truncated_file_is_refused(recorded):
    raw = (recorded / "synthetic" / "gpu_metrics" / "truncated_v1_5.bin").read_bytes()
    with pytest.raises(ParseError) as caught:
        Decoder().decode(raw)
    assert caught.value.errno == "EBADMSG"


def test_no_synthetic_file_is_left_out(recorded):
    names = {path.stem for path in (recorded / "synthetic" / "gpu_metrics").glob("*.bin")}
    assert set(SYNTHETIC) | {"truncated_v1_5"} == names


def test_one_mi300x_reads_the_same_in_every_revision(recorded):
    names = [name for name in SYNTHETIC if "mi300x" in name and not name.startswith("xcp")]
    readings = {name: Decoder().decode(synthetic(recorded, name)[0]) for name in names}
    assert len(names) == 5
    assert {readings["v1_4_mi300x"][:10]} == {reading[:10] for reading in readings.values()}
    accumulated = {name[:4]: (reading.accumulator_bits, reading.accumulated) for name, reading in readings.items()}
    counts = (8765432, 0, 54321, 12, 0, 7)
    without = (0, ())
    assert accumulated == {
        "v1_4": without,
        "v1_5": without,
        "v1_6": (32, counts),
        "v1_8": (32, counts),
        "v1_9": (64, counts),
    }
    for reading in readings.values():
        read, written, status = reading.links
        assert (0, 91234567 * 1024) == (link_bytes(read, status)["0"], link_bytes(read, status)["1"])
        assert link_bytes(written, status)["7"] == 81234573 * 1024
        assert status in (b"", struct.pack("<8H", 2, *[1] * 7))
    assert readings["v1_4_mi300x"][:4] == (None, 63.0, 55.0, 612.0)
    assert readings["v1_4_mi300x"].clock_sclk == 2.102e9


def test_the_two_dies_of_an_mi250x(recorded):
    first, second = (
        Decoder().decode(synthetic(recorded, f"v1_3_mi250x_{die}")[0]) for die in ("primary", "secondary_die")
    )
    assert (first.power, second.power) == (421.0, None)
    assert second.energy is None
    assert 2.0e8 < first.energy < 2.2e8


def test_an_mi50_without_power_in_its_metrics(recorded):
    reading = Decoder().decode(synthetic(recorded, "v1_0_mi50_power_zero")[0])
    assert (reading.temperature_junction, reading.power, reading.busy_gfx) == (38.0, None, 0.0)


def test_the_load_of_the_one_partition_of_an_mi300x(recorded):
    decoder = Decoder()
    for name, expected in (("v1_6_mi300x_spx", 0.97875), ("v1_8_mi300x_spx", 0.97875), ("v1_9_mi300x", 0.98)):
        raw = synthetic(recorded, name)[0]
        decoder.decode(raw)
        assert decoder.busy(raw, 0, slice(0, 8)) == pytest.approx(expected), name
        assert decoder.busy(raw, 1, slice(8, 8)) is None, name
    raw = synthetic(recorded, "v1_5_mi300x")[0]
    decoder.decode(raw)
    assert decoder.busy(raw, 0, slice(0, 8)) is None


def test_a_partition_s_own_file_is_read(recorded):
    raw = synthetic(recorded, "xcp_metrics_v1_1_mi300x_cpx_partition")[0]
    assert PartitionDecoder().decode(raw) == (0.97, 2.1e9)
