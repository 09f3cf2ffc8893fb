import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.partition import parse_partition_mode


@pytest.mark.parametrize(
    ("raw", "mode"),
    [
        (b"SPX\n", "SPX"),
        (b"CPX\n", "CPX"),
        (b"NPS1\n", "NPS1"),
        (b"NPS8\n\0\0", "NPS8"),
        (b"UNKNOWN\n", None),
        (b"Not supported\n", None),
        (b"\n", None),
        (b"", None),
    ],
)
def test_a_mode_is_a_word(raw, mode):
    assert mode == parse_partition_mode(raw)


@pytest.mark.parametrize("raw", [b"SPX, DPX, CPX\n", b"7\n", b"NPS\n", b"\xff\n"])
def test_anything_else_is_refused(raw):
    with pytest.raises(ParseError) as caught:
        parse_partition_mode(raw)
    assert caught.value.errno == "EBADMSG"
