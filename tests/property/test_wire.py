"""Frames between main and a reader: what is not exactly right is refused, by the one error, at no expense."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.observe.wire import (
    LARGEST_FRAME,
    MAILBOX_BYTES,
    Mailbox,
    Order,
    WireError,
    pack,
    pack_request,
    unpack,
    unpack_request,
)

MUCH = 4 << 20
FRAME = struct.Struct("<HHII")
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=20)
)
VALUES = st.recursive(
    LEAVES | st.binary(max_size=20), lambda inner: st.lists(inner, max_size=6).map(tuple), max_leaves=40
)
TUPLES = st.lists(VALUES, max_size=8).map(tuple)
ORDERS = st.builds(
    Order,
    st.text(min_size=1, max_size=20),
    st.integers(0, 15),
    st.text(max_size=10),
    st.lists(st.integers(0, 200), max_size=8).map(tuple),
)


def sealed(body: bytes) -> bytes:
    """A frame around any body, with the right check sum."""
    return FRAME.pack(0x5257, 0, len(body), zlib.crc32(body)) + body


def refused_cheaply(data: bytes) -> bool:
    """Whether it is refused; anything but `WireError`, or much memory, fails the test."""
    tracemalloc.start()
    try:
        unpack(data)
    except WireError:
        return True
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MUCH
    return False


@given(TUPLES, st.binary(max_size=30))
def test_what_is_packed_comes_back(value: tuple[object, ...], before: bytes) -> None:
    frame = pack(value)

    assert (value, len(before) + len(frame)) == unpack(before + frame, len(before))


@given(st.integers(0, 2**63), st.lists(ORDERS, max_size=20))
def test_a_request_comes_back(sequence: int, orders: list[Order]) -> None:
    assert (sequence, orders) == unpack_request(pack_request(sequence, tuple(orders)))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert refused_cheaply(data)


@given(TUPLES, st.data())
def test_a_frame_with_one_wrong_byte_is_refused(value: tuple[object, ...], data: st.DataObject) -> None:
    frame = bytearray(pack(value))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))

    assert refused_cheaply(bytes(frame))


@given(TUPLES, st.data())
def test_a_frame_that_is_cut_is_refused(value: tuple[object, ...], data: st.DataObject) -> None:
    frame = pack(value)

    assert refused_cheaply(frame[: data.draw(st.integers(0, len(frame) - 1))])


@pytest.mark.parametrize("body", [b"", b"i\x01\x00", b"N", b"\xff", b"[\x01\x00\x00\x00", b"u\x02\x00\x00\x00\xff\xff"])
def test_a_body_that_is_no_tuple_is_refused_though_its_check_sum_is_right(body: bytes) -> None:
    assert refused_cheaply(sealed(body))


@pytest.mark.parametrize("length", [LARGEST_FRAME + 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_length_that_cannot_be_is_refused_before_anything_is_done(length: int) -> None:
    assert refused_cheaply(FRAME.pack(0x5257, 0, length, 0) + b"x" * 100)


def test_a_frame_that_is_too_large_is_not_made() -> None:
    with pytest.raises(WireError, match="larger"):
        pack((b"x" * LARGEST_FRAME,))


# The mailbox -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[Mailbox, Mailbox]]:
    """(the reader's, main's)"""
    descriptor = Mailbox.create()
    reader, main = Mailbox(descriptor), Mailbox(descriptor)
    os.close(descriptor)
    yield reader, main
    reader.close()
    main.close()


def scribble(mailbox: Mailbox, at: int, data: bytes) -> None:
    """What a reader gone wild does to the memory."""
    mailbox._memory[at : at + len(data)] = data


def test_answers_are_there_in_their_order(ends: tuple[Mailbox, Mailbox]) -> None:
    reader, main = ends
    reader.begin(7)
    for subject in ("cards", "0000:05:00.0"):
        reader.enter(7, subject)
        reader.put(7, subject, (subject, 1, None, 2.5))

    assert [("cards", ("cards", 1, None, 2.5)), ("0000:05:00.0", ("0000:05:00.0", 1, None, 2.5))] == list(
        main.frames(7)
    )


def test_the_subject_in_progress_is_named_and_those_before_it_are_good(ends: tuple[Mailbox, Mailbox]) -> None:
    reader, main = ends
    reader.begin(7)
    reader.enter(7, "0000:05:00.0")
    reader.put(7, "0000:05:00.0", (1,))
    reader.enter(7, "0000:27:00.0")

    assert (7, "0000:27:00.0") == (main.progress()[0], main.progress()[2])
    assert {"0000:05:00.0": (1,)} == dict(main.frames(7))


def test_the_answer_to_another_request_is_none(ends: tuple[Mailbox, Mailbox]) -> None:
    reader, main = ends
    reader.begin(7)
    reader.put(7, "cards", (1,))

    with pytest.raises(WireError):
        list(main.frames(8))


def test_an_old_answer_under_a_new_number_is_none(ends: tuple[Mailbox, Mailbox]) -> None:
    """What a look at the moment between two writes of the head may see."""
    reader, main = ends
    reader.begin(7)
    reader.put(7, "cards", (1,))
    scribble(reader, 0, struct.pack("<Q", 8))

    with pytest.raises(WireError):
        list(main.frames(8))


def test_a_mailbox_that_is_full_is_said_by_the_reader(ends: tuple[Mailbox, Mailbox]) -> None:
    reader, main = ends
    reader.begin(1)
    large = (b"x" * (LARGEST_FRAME - 100),)
    kept = MAILBOX_BYTES // LARGEST_FRAME

    for number in range(kept):
        reader.put(1, str(number), large)
    with pytest.raises(WireError, match="full"):
        reader.put(1, "one more", large)
    assert kept == len(list(main.frames(1)))


@given(st.lists(st.tuples(st.integers(0, 300), st.binary(min_size=1, max_size=40)), min_size=1, max_size=4))
def test_a_scribbled_mailbox_raises_nothing_else(scribbles: list[tuple[int, bytes]]) -> None:
    descriptor = Mailbox.create()
    reader, main = Mailbox(descriptor), Mailbox(descriptor)
    os.close(descriptor)
    reader.begin(7)
    for number in range(4):
        reader.put(7, f"subject {number}", (number, "x" * 20))
    for at, data in scribbles:
        scribble(reader, at, data)

    found: list[tuple[str, tuple[object, ...]]] = []
    with suppress(WireError):
        found.extend(main.frames(7))
    assert len(main.progress()) == 3
    assert all(value == (int(subject[-1]), "x" * 20) for subject, value in found), "what is given is as it was put"
    reader.close()
    main.close()
