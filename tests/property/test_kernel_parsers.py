"""No bytes make a parser raise anything but ParseError, and what it accepts it understood right."""

from __future__ import annotations

import string
import time
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from kernel_bytes import SIZES, attribute, attributes, metrics

from rocmwatch.errors import ParseError
from rocmwatch.kernel import drm, hwmon, kfd, number, partition, pcie, ras, runtime_pm
from rocmwatch.kernel.buddy import parse_buddy
from rocmwatch.kernel.dpm import current_hertz, highest_hertz, parse_dpm
from rocmwatch.kernel.gpu_metrics import Decoder, parse_gpu_metrics, parse_xcp_metrics
from rocmwatch.kernel.gpu_metrics_layouts import ATTRIBUTE_TABLE, ATTRIBUTE_TYPES, LAYOUTS, WIDTHS
from rocmwatch.kernel.throttle import ThrottleMeter, throttled_now
from rocmwatch.kernel.xcp_metrics import PartitionDecoder

ERRNOS = {"ENODATA", "EBADMSG", "ERANGE"}


def parse_any_number(raw):
    return number.parse_number(raw, -(1 << 40), 1 << 50)


def parse_levels(raw):
    levels = parse_dpm(raw).levels
    return current_hertz(levels), highest_hertz(levels)


def parse_node(raw):
    return kfd.make_node(1, raw[:9], raw[9:30], raw, [(raw, raw[:9]), (raw[30:], None)])


def parse_labels(raw):
    return hwmon.plan({"temp1_label": raw, "temp1_input": b"", "freq1_label": raw[:5], "freq1_input": b""})


PARSERS = {
    "number": parse_any_number,
    "text": number.parse_text,
    "uevent": lambda raw: drm.pci_of(drm.parse_uevent(raw)),
    "runtime_status": runtime_pm.parse_runtime_status,
    "partition_mode": partition.parse_partition_mode,
    "dpm": parse_levels,
    "hwmon": parse_labels,
    "kfd": parse_node,
    "buddy": parse_buddy,
    "gpu_metrics": parse_gpu_metrics,
    "xcp_metrics": parse_xcp_metrics,
    "decoder": lambda raw: Decoder().decode(raw),
    "partition_decoder": lambda raw: PartitionDecoder().decode(raw),
    "error_counts": ras.parse_error_counts,
    "link_speed": pcie.parse_link_speed,
    "link_width": pcie.parse_link_width,
    "replays": pcie.parse_replays,
}
EXAMPLES = {
    "number": [b"206141652992\n", b"-273150\n", b"\n"],
    "text": [b"AMD Instinct MI999\n"],
    "uevent": [b"DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:C3:00.0\n"],
    "runtime_status": [b"suspended\n"],
    "partition_mode": [b"CPX\n", b"NPS4\n"],
    "dpm": [b"S: 19Mhz *\n0: 500Mhz \n1: 1700Mhz \n", b"0: 16.0GT/s, x16 619Mhz *\n"],
    "hwmon": [b"junction\n"],
    "kfd": [b"24248\nab\nsimd_count 80\nlocation_id 2561\ndomain 0\nheap_type 1\nsize_in_bytes 515396\n"],
    "buddy": [
        b"  size: 1048576\n  usage: 4096\nchunk_size: 4KiB, total: 1MiB, free: 0MiB, clear_free: 0MiB\n"
        b"order- 1 free:       24 KiB, blocks: 3\norder- 0 free:        4 KiB, blocks: 1\nreserved:\n",
        b"order- 1 free:       24 KiB, used:        8 KiB, free_blocks: 3, used_blocks: 1\n",
        b"  size: 1024\n0x0000000000000000-0x0000000000000200: 512: free\n"
        b"0x0000000000000200-0x0000000000000400: 512: used\ntotal: 1024, used 512 free 512\n",
    ],
    "gpu_metrics": [metrics(revision) for revision in SIZES]
    + [attributes(attribute(0, 2, 2, "H", 71), attribute(33, 1, 2, "H", *range(8)), attribute(43, 0, 6, "Q", 1))],
    "xcp_metrics": [metrics((1, 0), size=488), attributes(attribute(37, 1, 2, "H", 1300), revision=(1, 1))],
}
EXAMPLES["decoder"] = EXAMPLES["gpu_metrics"]
EXAMPLES["partition_decoder"] = EXAMPLES["xcp_metrics"]
EXAMPLES["error_counts"] = [b"ue: 0\nce: 12\nde: 3\n", b"Query currently inaccessible\n"]
EXAMPLES["link_speed"] = [b"16.0 GT/s PCIe\n", b"Unknown\n"]
EXAMPLES["link_width"] = EXAMPLES["replays"] = [b"16\n"]


@st.composite
def mutated(draw, examples):
    """A good file in which a few bytes were changed, taken away, doubled or put in."""
    raw = bytearray(draw(st.sampled_from(examples)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(["change", "cut", "take", "put", "double"])):
            case "change":
                raw[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del raw[at:]
            case "take":
                del raw[at : at + draw(st.integers(1, 30))]
            case "put":
                raw[at:at] = draw(st.binary(max_size=20) | st.text(string.printable, max_size=20).map(str.encode))
            case "double":
                raw[at:at] = raw[at : at + draw(st.integers(1, 60))]
    return bytes(raw)


def refused(parse, raw):
    """The error's name when the bytes are refused; anything else that is raised fails the test."""
    errno = None
    try:
        parse(raw)
    except ParseError as error:
        errno = error.errno
    assert errno is None or errno in ERRNOS
    return errno


@pytest.mark.parametrize("name", sorted(PARSERS))
@given(raw=st.binary(max_size=600))
def test_arbitrary_bytes_raise_nothing_but_parse_error(name, raw):
    refused(PARSERS[name], raw)


@pytest.mark.parametrize("name", sorted(PARSERS))
@given(data=st.data())
def test_mutated_files_raise_nothing_but_parse_error(name, data):
    refused(PARSERS[name], data.draw(mutated(EXAMPLES[name])))


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_every_truncation_of_a_good_file_raises_nothing_but_parse_error(name):
    for raw in EXAMPLES[name]:
        for length in range(min(len(raw), 400)):
            refused(PARSERS[name], raw[:length])


@pytest.mark.parametrize("name", sorted(PARSERS))
@pytest.mark.parametrize("piece", [b" ", b"0", b"\n", b"0: ", b"a ", b"order-", b"0x", b"\0", b"=", b"\xff"])
def test_a_megabyte_of_anything_is_soon_done_with(name, piece):
    raw = piece * (1_000_000 // len(piece))
    began = time.process_time()
    refused(PARSERS[name], raw)
    refused(PARSERS[name], EXAMPLES[name][0] + raw)
    assert time.process_time() - began < 5


# Numbers and text


@given(
    value=st.integers(-(1 << 70), 1 << 70), low=st.integers(-(1 << 64), 1 << 64), high=st.integers(-(1 << 64), 1 << 64)
)
def test_a_number_is_itself_or_out_of_range(value, low, high):
    raw = b"%d\n" % value
    if low <= value <= high:
        assert number.parse_number(raw, low, high) == value
    else:
        assert refused(lambda text: number.parse_number(text, low, high), raw) == "ERANGE"


@given(raw=st.binary(max_size=40))
def test_an_accepted_number_is_written_in_the_bytes(raw):
    try:
        value = number.parse_number(raw, -(1 << 200), 1 << 200)
    except ParseError:
        return
    digits = raw.strip(number.BLANK).lstrip(b"+-").lstrip(b"0") or b"0"
    assert str(abs(value)).encode() == digits


@given(raw=st.binary(max_size=80))
@example(raw=b"\x1b[2J\n")
def test_a_text_is_one_printable_line(raw):
    text = number.parse_text(raw)
    assert text is None or (text and "\n" not in text and all(one.isprintable() or one == "\ufffd" for one in text))


# Errors, and what holds clocks down


@given(ue=st.integers(0, 1 << 48), ce=st.integers(0, 1 << 48), de=st.none() | st.integers(0, 1 << 48))
def test_counts_of_errors_come_back_as_they_were_written(ue, ce, de):
    raw = f"ue: {ue}\nce: {ce}\n".encode() + (b"" if de is None else b"de: %d\n" % de)
    assert (ue, ce, de) == ras.parse_error_counts(raw)


@given(status=st.integers(0, (1 << 64) - 1))
def test_what_holds_now_is_yes_or_no_for_each_reason(status):
    now = throttled_now(status)
    assert ({"power", "current", "thermal", "prochot"}, True) == (now.keys(), set(now.values()) <= {0, 1})
    assert any(now.values()) == bool(status & (1 << 48) - 1)


@given(data=st.data(), bits=st.sampled_from([32, 64]))
def test_a_share_of_time_is_never_outside_0_and_1(data, bits):
    number = st.integers(0, (1 << bits) - 1) | st.integers(0, 1000)
    readings = st.lists(st.just(()) | st.tuples(*[number] * 6), max_size=6)
    meter = ThrottleMeter()
    for index, reading in enumerate(data.draw(readings)):
        shares = meter.update(bits, reading)
        assert not (shares and index == 0)
        assert all(0 <= share <= 1 for share in shares.values())


@given(
    start=st.integers(0, (1 << 32) - 2),
    rounds=st.integers(1, (1 << 31) - 1),
    held=st.lists(st.floats(0, 1), min_size=5, max_size=5),
)
def test_a_share_of_time_is_right_across_a_wrap(start, rounds, held):
    wrap = 1 << 32
    grown = [int(share * rounds) for share in held]
    before, after = (start, *[start] * 5), ((start + rounds) % wrap, *[(start + part) % wrap for part in grown])
    assume(wrap - 1 not in (*before, *after))
    meter = ThrottleMeter()
    meter.update(32, before)
    assert [part / rounds for part in grown] == list(meter.update(32, after).values())


# Clock levels


LEVELS = st.lists(st.tuples(st.sampled_from(["S", "0", "1", "17"]), st.integers(0, 10_000), st.booleans()), max_size=16)


@given(levels=LEVELS, form=st.sampled_from(["{}: {}Mhz {}\n", "{}: {}Mhz{}\n", "{}: {}MHz  {} \n"]))
def test_levels_come_back_as_they_were_written(levels, form):
    raw = "".join(form.format(index, megahertz, "*" * star) for index, megahertz, star in levels).encode()
    parsed = parse_dpm(raw).levels
    assert [(level.index, level.hertz // 1_000_000, level.current) for level in parsed] == levels
    starred = [megahertz * 1_000_000 for _, megahertz, star in levels if star]
    assert current_hertz(parsed) == (starred[-1] if starred else None)


# The allocator's table


def printed(form, free, used, chunk_kib):
    size = sum(count * chunk_kib * 1024 << order for order, count in free.items()) + (1 << 20)
    clear = ", clear_free: 1MiB" if form in {"F3", "F4"} else ""
    text = (
        f"  use_type: 1\n  size: {size}\n  usage: 1048576\nchunk_size: {chunk_kib}KiB, total: 1MiB, free: 1MiB{clear}\n"
    )
    for order, count in free.items():
        text += {
            "F1": f"order-{order} free: 1MiB, pages: {count}\n",
            "F2": f"order-{order:2d} free: {1:8d} KiB, blocks: {count}\n",
            "F3": f"order-{order:2d} free: {1:8d} KiB, blocks: {count}\n",
            "F4": f"order-{order:2d} free: {1:8d} MiB, used: {1:8d} KiB, free_blocks: {count}, used_blocks: {used}\n",
        }[form]
    return (text + "reserved:\n").encode()


@given(
    form=st.sampled_from(["F1", "F2", "F3", "F4"]),
    counts=st.lists(st.integers(0, 1 << 18), min_size=1, max_size=16),
    used=st.integers(0, 1 << 18),
    chunk_kib=st.sampled_from([4, 64]),
)
def test_a_table_of_any_format_comes_back_as_it_was_written(form, counts, used, chunk_kib):
    free = dict(reversed(list(enumerate(counts))))
    table = parse_buddy(printed(form, free, used, chunk_kib))
    assert (table.format, table.free_blocks, table.chunk_bytes) == (form, free, chunk_kib * 1024)
    assert table.free_bytes == sum(count * chunk_kib * 1024 << order for order, count in free.items())
    assert table.used_blocks == (dict.fromkeys(free, used) if form == "F4" else None)


@given(cuts=st.lists(st.integers(0, 1 << 20), unique=True, max_size=40), first_free=st.booleans())
def test_the_blocks_of_old_ranges_come_to_their_pages(cuts, first_free):
    total = (1 << 20) + 1234
    edges = [0, *sorted(cut for cut in cuts if cut), total]
    spans = list(pairwise(edges))
    words = ["free", "used"] if first_free else ["used", "free"]
    lines = [f"{start:#018x}-{end:#018x}: {end - start}: {words[at % 2]}" for at, (start, end) in enumerate(spans)]
    free = sum(end - start for at, (start, end) in enumerate(spans) if words[at % 2] == "free")
    raw = "\n".join([f"size: {total}", *lines, f"total: {total}, used {total - free} free {free}", ""]).encode()
    table = parse_buddy(raw)
    assert table.free_bytes == free * 4096
    assert sum(count << order for order, count in table.free_blocks.items()) == free
    # maximal aligned blocks: a range has at most two of each order
    ranges = sum(1 for at in range(len(spans)) if words[at % 2] == "free")
    assert all(count <= 2 * ranges for order, count in table.free_blocks.items() if order < 20)


# Topology


@given(
    bus=st.integers(0, 255),
    device=st.integers(0, 31),
    partitions=st.integers(2, 8),
    domain=st.sampled_from([0, 1, 0x10000]),
    order=st.randoms(use_true_random=False),
)
def test_partitions_come_together_whatever_order_they_are_found_in(bus, device, partitions, domain, order):
    assume(bus or device)
    nodes = []
    for part in range(partitions):
        location = bus << 8 | device << 3 | part
        text = b"simd_count 4\nlocation_id %d\ndomain %d\n" % (location, domain)
        made = kfd.make_node(2 + part, b"%d\n" % (100 + part), None, text, ())
        assert made is not None
        nodes.append(made)
    order.shuffle(nodes)
    (gpu,) = kfd.by_gpu(nodes).items()
    assert gpu[0] == f"{domain:04x}:{bus:02x}:{device:02x}.0"
    assert [node.gpu_id for node in gpu[1]] == [100 + part for part in range(partitions)]


# Metrics

REVISIONS = st.sampled_from(sorted(SIZES))
WHOLE = REVISIONS.flatmap(
    lambda revision: st.binary(min_size=SIZES[revision] - 4, max_size=SIZES[revision] - 4).map(
        lambda body: metrics(revision)[:4] + body
    )
)


@st.composite
def self_describing(draw):
    """A file of some of the known attributes, and of unknown ones, in any order and of any type."""
    parts = []
    for known in draw(st.lists(st.sampled_from(ATTRIBUTE_TABLE), unique=True, max_size=12)):
        form = draw(st.sampled_from(ATTRIBUTE_TYPES) | st.just(known.fmt))
        bits = 8 * WIDTHS[form]
        whole = (
            st.integers(0, (1 << bits) - 1) if form.isupper() else st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        )
        values = draw(st.lists(whole, max_size=8))
        unit = draw(st.just(known.unit) | st.integers(0, 255))
        number_ = draw(st.just(known.number) | st.integers(52, 1023))
        parts.append(attribute(number_, unit, ATTRIBUTE_TYPES.index(form), form, *values))
    return attributes(*parts)


def check_reading(reading):
    for value in reading[:3]:
        assert value is None or 0 < value <= 200
    assert reading.power is None or 0 < reading.power <= 10_000
    assert reading.energy is None or reading.energy > 0
    for value in (reading.busy_gfx, reading.busy_memory):
        assert value is None or 0 <= value <= 1
    for value in (reading.clock_sclk, reading.clock_mclk, *reading.xcc_clocks):
        assert value is None or 0 <= value <= 10e9


@given(raw=WHOLE | self_describing())
def test_a_reading_holds_nothing_that_cannot_be_true(raw):
    check_reading(Decoder().decode(raw))


@given(raws=st.lists(WHOLE | self_describing() | mutated(EXAMPLES["gpu_metrics"]), min_size=2, max_size=6))
@settings(max_examples=60)
def test_a_decoder_says_the_same_as_a_new_one(raws):
    decoder = Decoder()
    for raw in raws:
        errno = refused(Decoder().decode, raw)
        assert refused(decoder.decode, raw) == errno
        if errno is None:
            assert decoder.decode(raw) == Decoder().decode(raw)


@given(raw=WHOLE)
def test_every_field_is_the_number_that_lies_there(raw):
    parsed = parse_gpu_metrics(raw)
    layout = LAYOUTS[parsed.format_revision, parsed.content_revision]
    assert list(parsed.fields) == [field.name for field in layout]
    for field in layout:
        width = WIDTHS[field.fmt]
        there = [int.from_bytes(raw[field.offset + index * width :][:width], "little") for index in range(field.count)]
        expected = tuple(None if one == (1 << 8 * width) - 1 else one for one in there)
        assert parsed.fields[field.name] == (expected[0] if field.count == 1 else expected)


@given(raw=WHOLE | self_describing(), tail=st.binary(max_size=40))
def test_a_tail_changes_nothing(raw, tail):
    assert Decoder().decode(raw + tail) == Decoder().decode(raw)
    assert parse_gpu_metrics(raw + tail) == parse_gpu_metrics(raw)


@given(raw=WHOLE | self_describing(), length=st.integers(0, 4000))
def test_a_short_read_is_never_half_understood(raw, length):
    assume(length < len(raw))
    assert refused(Decoder().decode, raw[:length]) in {"EBADMSG", "ENODATA"}
    assert refused(parse_gpu_metrics, raw[:length]) in {"EBADMSG", "ENODATA"}
