import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.runtime_pm import may_read_sensors, parse_runtime_status


@pytest.mark.parametrize(
    ("raw", "allowed"),
    [
        (b"active\n", True),
        (b"unsupported\n", True),
        (b"error\n", True),
        (b"suspended\n", False),
        (b"suspending\n", False),
        (b"resuming\n", False),
    ],
)
def test_a_sleeping_card_is_left_alone(raw, allowed):
    status = parse_runtime_status(raw)
    assert raw.strip().decode() == status
    assert allowed is may_read_sensors(status)


def test_without_the_file_there_is_no_sleep():
    assert may_read_sensors(None)


@pytest.mark.parametrize(("raw", "errno"), [(b"\n", "ENODATA"), (b"", "ENODATA"), (b"drowsy\n", "EBADMSG")])
def test_another_word_is_refused(raw, errno):
    with pytest.raises(ParseError) as caught:
        parse_runtime_status(raw)
    assert errno == caught.value.errno
