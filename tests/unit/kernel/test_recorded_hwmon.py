import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.hwmon import plan
from rocmwatch.kernel.number import parse_number

pytestmark = pytest.mark.recorded

DISCRETE = {"temperature_edge", "temperature_junction", "temperature_memory", "clock_sclk", "clock_mclk", "power"}
OLD = {"temperature_edge", "clock_sclk", "clock_mclk"}
APU = {"temperature_edge", "clock_sclk", "power"}
CARDS = {
    "r7-240": OLD,
    "r9-280": OLD,
    "rx580": OLD | {"power"},
    "rx5500xt": DISCRETE,
    "rx5700xt": DISCRETE,
    "rx6600": DISCRETE,
    "rx6600xt": DISCRETE,
    "rx6900xt": DISCRETE,
    "rx7600s": DISCRETE,
    "rx7800xt": DISCRETE,
    "rx7900xtx": DISCRETE,
    "rx9070": DISCRETE,
    "phoenix": APU,
    "strixpoint": APU,
}


def folder_of(root):
    (folder,) = (path for path in root.rglob("hwmon*") if path.parent.name == "hwmon")
    return folder


def planned(folder):
    files = {path.name: path.read_bytes() if path.name.endswith("_label") else b"" for path in folder.iterdir()}
    return plan(files)


def error_of(folder, reading):
    try:
        parse_number((folder / reading.file).read_bytes(), reading.low, reading.high)
    except ParseError as error:
        return error.errno
    return None


@pytest.mark.parametrize("card", sorted(CARDS))
def test_every_card_s_sensors_are_found(recorded, card):
    assert CARDS[card] == {reading.name for reading in planned(folder_of(recorded / "lact" / card)).readings}


@pytest.mark.parametrize("card", sorted(CARDS))
def test_every_recorded_value_is_believed(recorded, card):
    folder = folder_of(recorded / "lact" / card)
    both = planned(folder)
    errors = {reading.name: error_of(folder, reading) for reading in (*both.readings, *both.limits)}
    # this card's memory sensor says 0 degrees
    expected = {"temperature_memory": "ERANGE"} if card == "rx5500xt" else {}
    assert expected == {name: errno for name, errno in errors.items() if errno is not None}


def test_an_mi300a_has_no_edge(recorded):
    assert [reading.name for reading in planned(recorded / "snippets" / "mi300a-hwmon").readings] == [
        "temperature_junction",
        "temperature_memory",
    ]


def test_an_old_driver_s_card_without_labels_has_one_temperature(recorded):
    assert [(reading.name, reading.file) for reading in planned(folder_of(recorded / "lact" / "hd7870")).readings] == [
        ("temperature_edge", "temp1_input")
    ]
