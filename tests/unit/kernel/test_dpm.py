import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.dpm import Level, current_hertz, highest_hertz, parse_dpm

MHZ = 1_000_000


def level(index: str, megahertz: int, *, current: bool = False) -> Level:
    return Level(index, megahertz * MHZ, current)


@pytest.mark.parametrize(
    ("raw", "current", "highest"),
    [
        pytest.param(b"0: 500Mhz \n1: 800Mhz *\n2: 1700Mhz \n", 800, 1700, id="trailing spaces"),
        pytest.param(b"0: 500Mhz\n1: 800Mhz *\n2: 1700Mhz\n", 800, 1700, id="no trailing spaces"),
        pytest.param(b"S: 19Mhz *\n0: 500Mhz \n1: 1700Mhz \n", 19, 1700, id="deep sleep"),
        pytest.param(b"S: 500Mhz\n1: 790Mhz *\n2: 2070Mhz\n", 790, 2070, id="S without a star"),
        pytest.param(b"0: 300Mhz \n1: 1900Mhz \n", None, 1900, id="no star"),
        pytest.param(b"0: 10Mhz *\n1: 20Mhz *\n", 20, 20, id="two stars"),
        pytest.param(b"0: 0Mhz *\n1: 0Mhz *", 0, None, id="all off"),
        pytest.param(b"0: 300Mhz \n1: 0Mhz *\n2: 1900Mhz \n", 0, 1900, id="graphics off"),
        pytest.param(b"0: 167Mhz*\n1: 500Mhz\n\0\0\0\0", 167, 500, id="NULs"),
        pytest.param(b"0: 167MHz *\n", 167, 167, id="the unit as others write it"),
        pytest.param(b"0: 2.5GT/s, x1 81Mhz \n1: 16.0GT/s, x8 306Mhz *\n", 306, 306, id="pcie"),
        pytest.param(b"0: 8.0GT/s, x16 \n1: 8.0GT/s, x16 *\n", None, None, id="pcie without clocks"),
        pytest.param(b"\n", None, None, id="a lone newline"),
        pytest.param(b"", None, None, id="nothing"),
    ],
)
def test_every_known_form_is_understood(raw, current, highest):
    levels = parse_dpm(raw).levels
    assert (None if current is None else current * MHZ) == current_hertz(levels)
    assert (None if highest is None else highest * MHZ) == highest_hertz(levels)


def test_levels_keep_their_order_and_their_index():
    expected = (level("S", 19, current=True), level("0", 500), level("1", 1700))
    assert expected == parse_dpm(b"S: 19Mhz *\n0: 500Mhz \n1: 1700Mhz \n").levels


@pytest.mark.parametrize(
    "raw",
    [
        b"unavailable\n",
        b"0: 500\n",
        b"0: 500Mhz **\n",
        b"0: 500Mhz\nx\n",
        b"Z: 500Mhz\n",
        b"0: -5Mhz\n",
        b"0: *\n",
        b"0: \n",
        b"0: GT/s\n",
        b"0:" + b" " * 4000 + b"x\n",
    ],
)
def test_a_line_that_is_no_level_is_refused(raw):
    with pytest.raises(ParseError) as caught:
        parse_dpm(raw)
    assert caught.value.errno == "EBADMSG"


def test_a_clock_above_10_ghz_cannot_be_true():
    assert current_hertz(parse_dpm(b"0: 10000Mhz *\n").levels) == 10_000 * MHZ
    with pytest.raises(ParseError) as caught:
        parse_dpm(b"0: 10001Mhz *\n")
    assert caught.value.errno == "ERANGE"
