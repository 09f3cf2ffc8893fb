import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.buddy import parse_buddy

MIB = 1 << 20
HEAD = """  use_type: 1
  use_tt: 0
  size: 67108864
  usage: 33554432
  vis usage:33554432
default_page_size: 4KiB
"""
TAIL = "reserved:\n0x0000000003fff000-0x0000000004000000: 4096\n"
FREE = {12: 1, 11: 0, 10: 2, 9: 1, 8: 0, 7: 0, 6: 0, 5: 3, 4: 0, 3: 0, 2: 0, 1: 7, 0: 1}
FREE_BYTES = sum(count * 4096 << order for order, count in FREE.items())


def size_of(order: int, count: int) -> str:
    kib = count * 4 << order
    return f"{kib >> 10}MiB" if kib >= 1024 else f"{kib}KiB"


def whole(form: str) -> bytes:
    clear = ", clear_free: 3MiB" if form in ("F3", "F4") else ""
    text = f"{HEAD}chunk_size: 4KiB, total: 64MiB, free: {FREE_BYTES // MIB}MiB{clear}\n"
    for order, count in FREE.items():
        size = size_of(order, count)
        spaced = f"{size[:-3]:>8} {size[-3:]}"
        text += {
            "F1": f"order-{order} free: {size}, pages: {count}\n",
            "F2": f"order-{order:2d} free: {spaced}, blocks: {count}\n",
            "F3": f"order-{order:2d} free: {spaced}, blocks: {count}\n",
            "F4": f"order-{order:2d} free: {spaced}, used:        0 KiB, free_blocks: {count}, used_blocks: {order}\n",
        }[form]
    return (text + TAIL).encode()


F0 = b"""  use_type: 1
  use_tt: 0
  size: 16384
0x0000000000000000-0x0000000000000200: 512: free
0x0000000000000200-0x0000000000000400: 512: free
0x0000000000000400-0x0000000000001002: 3074: used
0x0000000000001002-0x0000000000004000: 12286: free
total: 16384, used 3074 free 13310
man size:16384 pages, ram usage:12MB, vis usage:12MB
"""


@pytest.mark.parametrize("form", ["F1", "F2", "F3", "F4"])
def test_one_state_reads_the_same_in_every_kernel_s_words(form):
    table = parse_buddy(whole(form))
    assert form == table.format
    assert table.chunk_bytes == 4096
    assert table.free_blocks == FREE
    assert table.free_bytes == FREE_BYTES
    assert table.total_bytes == 64 * MIB
    assert (3 * MIB if form in ("F3", "F4") else None) == table.clear_free_bytes
    assert ({order: order for order in FREE} if form == "F4" else None) == table.used_blocks


def test_ranges_of_the_old_allocator_become_aligned_blocks():
    table = parse_buddy(F0)
    assert table.format == "F0"
    assert table.total_bytes == 64 * MIB
    assert table.free_bytes == 13310 * 4096
    # 0-1024 is one block of order 10; 4098 up to 16384: 2, 4, 8, ... 2048, then 8192
    assert dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13), 1) | {10: 2} == {
        order: count for order, count in table.free_blocks.items() if count
    }
    assert max(table.free_blocks) == 14
    assert table.used_blocks is None
    assert table.clear_free_bytes is None


def test_counts_are_believed_and_rounded_sizes_are_not():
    raw = b"chunk_size: 4KiB, total: 64MiB, free: 0MiB\norder- 1 free:        0 MiB, blocks: 3\n"
    assert parse_buddy(raw).free_bytes == 3 * 8192


def test_a_chunk_may_be_larger_than_a_page():
    raw = b"chunk_size: 64KiB, total: 64MiB, free: 0MiB\norder- 1 free:        0 MiB, blocks: 3\n"
    table = parse_buddy(raw)
    assert (table.chunk_bytes, table.free_bytes) == (64 * 1024, 3 * 128 * 1024)


def test_a_quoted_part_is_understood_as_far_as_it_goes():
    table = parse_buddy(b"order- 5 free:  493 MiB, blocks:  3941\norder- 4 free:  246 MiB, blocks:  3943\n")
    assert (table.format, table.free_blocks, table.total_bytes) == ("F2", {5: 3941, 4: 3943}, None)


@pytest.mark.parametrize("form", ["F1", "F2", "F3", "F4"])
def test_a_table_cut_short_is_refused(form):
    raw = whole(form)
    end = raw.index(b"order-0" if form == "F1" else b"order- 0")
    for cut in range(raw.index(b"usage"), end):
        with pytest.raises(ParseError) as caught:
            parse_buddy(raw[:cut])
        assert caught.value.errno == "EBADMSG"


def test_the_old_table_cut_short_is_refused():
    for cut in range(len(b"  use"), F0.index(b"total:") + 6):
        with pytest.raises(ParseError):
            parse_buddy(F0[:cut])


@pytest.mark.parametrize(
    ("raw", "errno"),
    [
        pytest.param(b"", "ENODATA", id="empty"),
        pytest.param(b"\n\n", "ENODATA", id="blank"),
        pytest.param(b"hello\n", "EBADMSG", id="another file"),
        pytest.param(b"order-3 free: what, pages: 1\n", "EBADMSG", id="a garbled line"),
        pytest.param(b"order-3 free: 8KiB, pages: 1\norder-3 free: 8KiB, pages: 1\n", "EBADMSG", id="an order twice"),
        pytest.param(b"order-3 free: 8KiB, pages: 1\norder-2 free: 8KiB, blocks: 1\n", "EBADMSG", id="two formats"),
        pytest.param(b"order-41 free: 8KiB, pages: 1\n", "ERANGE", id="an order beyond all memory"),
        pytest.param(b"order-40 free: 8KiB, pages: 1\n", "ERANGE", id="a block beyond all memory"),
        pytest.param(
            b"chunk_size: 4KiB, total: 1MiB, free: 0MiB\norder-9 free: 2MiB, pages: 1\n", "ERANGE", id="more than all"
        ),
        pytest.param(F0.replace(b"0x0000000000004000", b"0x0000000000004001"), "ERANGE", id="a range beyond the end"),
        pytest.param(F0.replace(b"size: 16384", b"size: 999999999999"), "ERANGE", id="more pages than there are"),
        pytest.param(F0.replace(b"0x0000000000001002-", b"0x0000000000000100-"), "EBADMSG", id="overlapping ranges"),
        pytest.param(F0.replace(b"0x0000000000001002-", b"0x0000000000005000-"), "ERANGE", id="a range backwards"),
        pytest.param(F0.replace(b"  size: 16384\n", b""), "EBADMSG", id="ranges without a size"),
    ],
)
def test_nonsense_is_refused(raw, errno):
    with pytest.raises(ParseError) as caught:
        parse_buddy(raw)
    assert errno == caught.value.errno


def test_an_empty_card_of_the_old_allocator_is_one_free_range():
    raw = b"size: 1024\n0x0000000000000000-0x0000000000000400: 1024: free\ntotal: 1024, used 0 free 1024\n"
    assert {order: count for order, count in parse_buddy(raw).free_blocks.items() if count} == {10: 1}


def test_a_full_card_has_no_free_block():
    raw = b"size: 1024\n0x0000000000000000-0x0000000000000400: 1024: used\ntotal: 1024, used 1024 free 0\n"
    assert parse_buddy(raw).free_bytes == 0
