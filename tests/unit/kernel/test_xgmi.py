import struct

from rocmwatch.kernel import xgmi

MISSING = (1 << 64) - 1


def link_bytes(kilobytes, status=()):
    return xgmi.link_bytes(struct.pack(f"<{len(kilobytes)}Q", *kilobytes), struct.pack(f"<{len(status)}H", *status))


def test_bytes_are_told_by_link():
    assert {"0": 0, "1": 1024, "2": 10_240} == link_bytes((0, 1, 10))


def test_what_is_not_available_is_left_out():
    assert {"1": 1024} == link_bytes((MISSING, 1))


def test_a_link_that_is_off_and_never_carried_anything_is_none():
    assert {"0": 0, "2": 0, "3": 1024} == link_bytes((0, 0, 0, 1), (0, 0xFFFF, 2, 0xFFFF))
