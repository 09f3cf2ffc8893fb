import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.pcie import parse_link_speed, parse_link_width, parse_replays


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"2.5 GT/s PCIe\n", 2.5e9),
        (b"16.0 GT/s PCIe\n", 16e9),
        (b"8 GT/s\n", 8e9),
        (b"64.0 GT/s PCIe\n", 64e9),
        (b"Unknown\n", None),
        (b"Unknown speed\n", None),
    ],
)
def test_a_speed_is_transfers_a_second(raw, expected):
    assert expected == parse_link_speed(raw)


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"16\n", 16), (b"1\n", 1), (b"32\n", 32), (b"0\n", None), (b"63\n", None), (b"255\n", None)]
)
def test_a_width_is_lanes_and_a_link_that_is_down_has_none(raw, expected):
    assert expected == parse_link_width(raw)


def test_replays_are_a_number():
    assert 7 == parse_replays(b"7\n")


@pytest.mark.parametrize(
    ("parse", "raw", "errno"),
    [
        (parse_link_speed, b"", "ENODATA"),
        (parse_link_speed, b"\n", "ENODATA"),
        (parse_link_speed, b"16\n", "EBADMSG"),
        (parse_link_speed, b"16.0 MT/s PCIe\n", "EBADMSG"),
        (parse_link_speed, b"0.0 GT/s PCIe\n", "ERANGE"),
        (parse_link_speed, b"999 GT/s PCIe\n", "ERANGE"),
        (parse_link_width, b"", "ENODATA"),
        (parse_link_width, b"x16\n", "EBADMSG"),
        (parse_link_width, b"33\n", "ERANGE"),
        (parse_link_width, b"-1\n", "ERANGE"),
        (parse_replays, b"18446744073709551615\n", "ERANGE"),
        (parse_replays, b"none\n", "EBADMSG"),
    ],
)
def test_anything_else_is_refused(parse, raw, errno):
    with pytest.raises(ParseError) as caught:
        parse(raw)
    assert errno == caught.value.errno
