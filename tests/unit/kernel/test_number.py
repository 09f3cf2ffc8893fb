import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import parse_number, parse_text


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"206141652992\n", 206141652992),
        (b"0\n", 0),
        (b"-273150\n", -273150),
        (b"  17 \t\n", 17),
        (b"17\n" + b"\0" * 4093, 17),
        (b"\0\x0017\n\0", 17),
    ],
)
def test_a_number_is_read_whatever_surrounds_it(raw, value):
    assert value == parse_number(raw, -(1 << 40), 1 << 40)


@pytest.mark.parametrize("raw", [b"", b"\n", b"  \n", b"\0" * 64])
def test_an_empty_line_is_no_data(raw):
    with pytest.raises(ParseError) as caught:
        parse_number(raw, 0, 100)
    assert caught.value.errno == "ENODATA"


@pytest.mark.parametrize(
    "raw", [b"17", b"17\0\0", b"unavailable\n", b"1.5\n", b"0x10\n", b"1 2\n", b"1_000\n", b"12\n13\n", b"\xd9\xa1\n"]
)
def test_what_is_no_whole_integer_is_bad(raw):
    with pytest.raises(ParseError) as caught:
        parse_number(raw, 0, 10_000)
    assert caught.value.errno == "EBADMSG"


@pytest.mark.parametrize(("raw", "errno"), [(b"9\n", "ERANGE"), (b"10\n", None), (b"20\n", None), (b"21\n", "ERANGE")])
def test_the_limits_belong_to_the_range(raw, errno):
    try:
        parse_number(raw, 10, 20)
        found = None
    except ParseError as error:
        found = error.errno
    assert errno == found


def test_a_number_of_a_thousand_digits_does_not_fill_the_log():
    with pytest.raises(ParseError) as caught:
        parse_number(b"9" * 1000, 0, 100)
    assert caught.value.errno == "ERANGE"
    assert len(str(caught.value)) < 120


def test_more_digits_than_python_converts_are_bad():
    with pytest.raises(ParseError):
        parse_number(b"9" * 100_000, 0, 100)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"AMD Instinct MI999\n", "AMD Instinct MI999"),
        (b"\n", None),
        (b"", None),
        (b"\0\0\0", None),
        (b"first\nsecond\n", "first"),
        (b"name\0\0\0\0", "name"),
        (b"  padded  \n", "padded"),
        ("Grafikkarte für Große\n".encode(), "Grafikkarte für Große"),
        (b"A\xffB\n", "A\\xffB"),
        (b"A\x1b[31mB\n", "A\ufffd[31mB"),
        (b"A\x07\x00B\n", "A\ufffd\ufffdB"),
        ("A\u202eB\n".encode(), "A\ufffdB"),
        (b"A" * 100_000, "A" * 256),
        (b"\xff" * 100_000, "\\xff" * 256),
    ],
)
def test_a_line_of_text_is_made_safe_to_print(raw, text):
    assert text == parse_text(raw)
