import struct

import pytest
from kernel_bytes import SIZES, attribute, attributes, metrics

from rocmwatch.errors import ParseError
from rocmwatch.kernel.gpu_metrics import Decoder, MetricsReading, is_apu, parse_gpu_metrics, parse_xcp_metrics
from rocmwatch.kernel.gpu_metrics_plan import READING

NONE, MHZ, CELSIUS, WATTS, PERCENT = 0, 1, 2, 3, 10  # units of 1.9's encoding words
U16, U32, U64 = (2, "H"), (4, "I"), (6, "Q")  # types of them
TAKEN = 10  # what is a value at once; the counters come after it

RADEON = [
    (4, "H", 51),
    (6, "H", 58),
    (8, "H", 66),
    (16, "H", 87),
    (18, "H", 12),
    (22, "H", 245),
    (54, "H", 2450),
    (58, "H", 1249),
]
HBM = [(88, "H", 60), (90, "H", 61), (92, "H", 62), (94, "H", 63)]
MI300 = {
    (1, 4): {"energy": 24, "clocks": 240, "uclk": 280},
    (1, 5): {"energy": 88, "clocks": 312, "uclk": 352},
    (1, 6): {"energy": 16, "clocks": 264, "uclk": 304},
    (1, 7): {"energy": 24, "clocks": 296, "uclk": 336},
    (1, 8): {"energy": 24, "clocks": 296, "uclk": 336},
}


def mi300(revision, clocks=(2000, 2100)):
    at = MI300[revision]
    heat = [(4, "H", 71), (6, "H", 64), (10, "H", 690), (12, "H", 99), (14, "H", 45)]
    rest = [(at["energy"], "Q", 1 << 30), (at["uclk"], "H", 1300)]
    return metrics(revision, heat + rest + [(at["clocks"] + 2 * die, "H", clock) for die, clock in enumerate(clocks)])


def mi350(*, hotspot=71, temperature_unit=CELSIUS, clocks=(2000, 2100), extra=()):
    return attributes(
        attribute(0, temperature_unit, *U16, hotspot),
        *extra,
        attribute(1, CELSIUS, *U16, 64),
        attribute(3, WATTS, *U16, 690),
        attribute(4, PERCENT, *U16, 99),
        attribute(5, PERCENT, *U16, 45),
        attribute(7, NONE, *U64, 1 << 30),
        attribute(33, MHZ, *U16, *clocks, *[0xFFFF] * (8 - len(clocks))),
        attribute(37, MHZ, *U16, 1300),
    )


def apu(revision, places=()):
    shift = 12 if revision == (2, 0) else 0
    named = [(4 + shift, "H", 4512), (28 + shift, "H", 1234), (40 + (4 if shift else 0), "H", 17_250)]
    return metrics(revision, [*named, *places])


def errno_of(parse, raw):
    with pytest.raises(ParseError) as caught:
        parse(raw)
    return caught.value.errno


# What is read


def test_the_order_of_a_plan_is_the_reading_s():
    assert (*READING, "xcc_clocks") == MetricsReading._fields[:TAKEN]


@pytest.mark.parametrize("revision", [(1, 1), (1, 2), (1, 3)])
def test_a_radeon_is_read_in_degrees_and_watts(revision):
    expected = MetricsReading(51.0, 58.0, 66.0, 245.0, None, 0.87, 0.12, 2.45e9, 1.249e9, ())
    assert expected == Decoder().decode(metrics(revision, RADEON))


def test_the_oldest_revision_has_its_own_places():
    places = [(16, "H", 35), (18, "H", 38), (20, "H", 36), (28, "H", 5), (30, "H", 6), (34, "H", 25), (36, "I", 99)]
    expected = MetricsReading(35.0, 38.0, 36.0, 25.0, None, 0.05, 0.06, 9.3e8, 3.5e8, ())
    assert expected == Decoder().decode(metrics((1, 0), [*places, (54, "H", 930), (58, "H", 350)]))


def test_energy_is_counted_where_its_unit_is_known():
    raw = metrics((1, 3), [*RADEON, *HBM, (24, "Q", 1 << 40)])
    assert float(1 << 24) == Decoder().decode(raw).energy


@pytest.mark.parametrize("energy", [17_691_682, (1 << 32) - 1, 0])
def test_energy_of_a_radeon_is_in_no_known_unit(energy):
    assert Decoder().decode(metrics((1, 3), [*RADEON, (24, "Q", energy)])).energy is None


def test_a_silent_second_die_has_neither_power_nor_energy():
    reading = Decoder().decode(metrics((1, 3), [*RADEON, *HBM, (22, "H", 0), (24, "Q", 0)]))
    assert (reading.power, reading.energy) == (None, None)
    assert reading.temperature_junction == 58.0


@pytest.mark.parametrize("revision", sorted(MI300))
def test_an_mi300_has_a_clock_for_each_die_and_no_edge(revision):
    expected = MetricsReading(
        None, 71.0, 64.0, 690.0, 16384.0, 0.99, 0.45, 2.1e9, 1.3e9, (2.0e9, 2.1e9, None, None, None, None, None, None)
    )
    assert expected[:TAKEN] == Decoder().decode(mi300(revision))[:TAKEN]


def test_a_file_that_describes_itself_reads_the_same():
    assert Decoder().decode(mi300((1, 5)))[:TAKEN] == Decoder().decode(mi350())[:TAKEN]


@pytest.mark.parametrize("revision", [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)])
def test_an_apu_counts_in_hundredths(revision):
    current = 80 if revision == (2, 0) else 76
    reading = Decoder().decode(apu(revision, [(current, "H", 2200), (current + 4, "H", 1600)]))
    assert (pytest.approx(45.12), None, None) == reading[:3]
    assert (pytest.approx(17.25), None) == reading[3:5]
    assert (pytest.approx(0.1234), None, 2.2e9, 1.6e9, ()) == reading[5:TAKEN]


def test_an_apu_without_a_current_clock_has_an_average():
    reading = Decoder().decode(apu((2, 1), [(64, "H", 800), (68, "H", 400)]))
    assert (reading.clock_sclk, reading.clock_mclk) == (8.0e8, 4.0e8)
    reading = Decoder().decode(apu((2, 1), [(64, "H", 800), (76, "H", 2200)]))
    assert (reading.clock_sclk, reading.clock_mclk) == (2.2e9, None)


def test_an_apu_whose_firmware_counts_power_in_watts_says_nothing():
    assert Decoder().decode(apu((2, 2), [(40, "H", 15)])).power is None


def test_the_newest_apus_leave_their_activity_to_the_kernel():
    places = [(4, "H", 3812), (42, "H", 80), (112, "I", 98_390), (174, "H", 849), (186, "H", 836)]
    reading = Decoder().decode(metrics((3, 0), places))
    assert (pytest.approx(38.12), pytest.approx(98.39), None) == (reading[0], reading.power, reading.busy_gfx)
    assert (reading.clock_sclk, reading.clock_mclk) == (8.49e8, 8.36e8)


@pytest.mark.parametrize(("revision", "yes"), [(1, False), (2, True), (3, True), (4, False)])
def test_an_apu_is_told_by_the_format(revision, yes):
    assert yes is is_apu(revision)


# What cannot be true


@pytest.mark.parametrize("revision", sorted(SIZES))
def test_all_ones_is_not_available(revision):
    assert Decoder().decode(metrics(revision))[:9] == (None,) * 9
    fields = parse_gpu_metrics(metrics(revision)).fields
    assert {None} == {one for value in fields.values() for one in (value if isinstance(value, tuple) else (value,))}


@pytest.mark.parametrize(
    ("place", "field", "value"),
    [
        ((4, "H", 0), "temperature_edge", None),
        ((4, "H", 1), "temperature_edge", 1.0),
        ((6, "H", 200), "temperature_junction", 200.0),
        ((6, "H", 201), "temperature_junction", None),
        ((16, "H", 100), "busy_gfx", 1.0),
        ((16, "H", 101), "busy_gfx", None),
        ((16, "H", 0), "busy_gfx", 0.0),
        ((22, "H", 0), "power", None),
        ((22, "H", 10_000), "power", 10_000.0),
        ((22, "H", 10_001), "power", None),
        ((54, "H", 0), "clock_sclk", 0.0),
        ((54, "H", 10_000), "clock_sclk", 1e10),
        ((54, "H", 10_001), "clock_sclk", None),
    ],
)
def test_what_cannot_be_true_is_not_reported(place, field, value):
    assert value == getattr(Decoder().decode(metrics((1, 3), [*RADEON, place])), field)


def test_a_die_whose_clock_cannot_be_true_does_not_count():
    reading = Decoder().decode(mi300((1, 5), clocks=(2000, 60_000, 1900)))
    assert (reading.clock_sclk, *reading.xcc_clocks[:3]) == (2.0e9, 2.0e9, None, 1.9e9)


@pytest.mark.parametrize("unit", [MHZ, WATTS, NONE])
def test_an_attribute_that_was_given_another_meaning_is_not_used(unit):
    assert Decoder().decode(mi350(temperature_unit=unit)).temperature_junction is None


def test_a_negative_temperature_in_a_signed_attribute_is_not_reported():
    raw = attributes(attribute(0, CELSIUS, 3, "h", -5), attribute(1, CELSIUS, 1, "b", 64))
    assert Decoder().decode(raw)[1:3] == (None, 64.0)
    assert parse_gpu_metrics(raw).fields == {"temperature_hotspot": -5, "temperature_mem": 64}


def test_the_all_ones_of_a_signed_attribute_is_minus_one():
    assert parse_gpu_metrics(attributes(attribute(0, CELSIUS, 3, "h", -1))).fields == {"temperature_hotspot": None}


# What is refused


@pytest.mark.parametrize("revision", sorted(SIZES))
def test_a_short_read_is_refused(revision):
    raw = metrics(revision)
    for length in (1, 3, 4, 20, len(raw) - 1):
        assert errno_of(Decoder().decode, raw[:length]) == "EBADMSG"
        assert errno_of(parse_gpu_metrics, raw[:length]) == "EBADMSG"


@pytest.mark.parametrize("revision", sorted(SIZES))
def test_a_size_below_the_revision_s_is_refused(revision):
    raw = bytearray(metrics(revision))
    struct.pack_into("<H", raw, 0, SIZES[revision] - 1)
    assert errno_of(Decoder().decode, bytes(raw)) == "EBADMSG"


@pytest.mark.parametrize("revision", sorted(SIZES))
def test_what_lies_beyond_the_known_fields_is_not_looked_at(revision):
    raw = metrics(revision, size=SIZES[revision] + 40)
    assert Decoder().decode(metrics(revision)) == Decoder().decode(raw) == Decoder().decode(raw + b"\0" * 3000)


@pytest.mark.parametrize("revision", [(0, 0), (1, 10), (1, 255), (2, 5), (3, 1), (4, 0), (255, 255)])
def test_an_unknown_revision_is_refused(revision):
    raw = metrics(revision, size=4000)
    assert errno_of(Decoder().decode, raw) == "EBADMSG"
    assert errno_of(parse_gpu_metrics, raw) == "EBADMSG"


def test_an_empty_file_is_no_data():
    assert errno_of(Decoder().decode, b"") == "ENODATA"
    assert errno_of(parse_gpu_metrics, b"") == "ENODATA"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(attributes(count=-1), id="a negative count"),
        pytest.param(attributes(count=1), id="more attributes than there are"),
        pytest.param(attributes(count=1 << 30), id="many more"),
        pytest.param(attributes(attribute(0, CELSIUS, 8, "H", 1)), id="an unknown type"),
        pytest.param(attributes(struct.pack("<Q", CELSIUS << 24 | 2 << 20 | 1023)), id="values beyond the end"),
        pytest.param(attributes()[:7], id="half a count"),
        pytest.param(mi350()[:-1], id="a short read"),
    ],
)
def test_attributes_that_do_not_add_up_are_refused(raw):
    assert errno_of(Decoder().decode, raw) == "EBADMSG"
    assert errno_of(parse_gpu_metrics, raw) == "EBADMSG"


# A decoder goes on


def test_a_decoder_follows_its_card_through_a_change_of_driver():
    decoder = Decoder()
    for raw in (mi300((1, 5)), metrics((1, 3), RADEON), mi350(), mi300((1, 8)), mi350(), metrics((1, 3), RADEON)):
        assert Decoder().decode(raw) == decoder.decode(raw)


def test_a_decoder_goes_on_after_nonsense():
    decoder = Decoder()
    for good in (mi300((1, 5)), mi350()):
        for bad in (b"", good[:-1], b"\xff" * 4000, attributes(count=7)):
            assert Decoder().decode(good) == decoder.decode(good)
            assert errno_of(decoder.decode, bad) in {"EBADMSG", "ENODATA"}
        assert Decoder().decode(good) == decoder.decode(good)


def test_a_decoder_sees_attributes_that_changed_places():
    decoder = Decoder()
    usual = mi350(extra=[attribute(49, CELSIUS, *U16, 33)])
    assert decoder.decode(usual).temperature_junction == 71.0
    swapped = bytearray(usual)  # the same size and count, other numbers in two encoding words
    swapped[8:16], swapped[18:26] = usual[18:26], usual[8:16]
    assert decoder.decode(bytes(swapped)).temperature_junction == 33.0
    assert decoder.decode(usual).temperature_junction == 71.0


def test_a_decoder_sees_that_attributes_were_taken_away():
    decoder = Decoder()
    usual = mi350()
    assert decoder.decode(usual).clock_mclk == 1.3e9
    fewer = bytearray(usual)  # the last one is still in the file, and is not counted any more
    struct.pack_into("<i", fewer, 4, 7)
    assert decoder.decode(bytes(fewer)).clock_mclk is None


def test_new_values_are_read_with_the_old_plan():
    decoder = Decoder()
    assert [decoder.decode(mi350(hotspot=hotspot)).temperature_junction for hotspot in (71, 72, 0xFFFF, 73)] == [
        71.0,
        72.0,
        None,
        73.0,
    ]


# Counters, as they are

ACCUMULATED = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
XGMI = {(1, 4): 104, (1, 5): 176, (1, 6): 128, (1, 7): 136, (1, 8): 136}


def attributes_of_1_9(*, accumulator=U64, link_unit=9, links=8):
    counters = [attribute(9 + n, NONE, *accumulator, 1000 + n) for n in range(6)]
    read = attribute(29, link_unit, *U64, *range(links))
    written = attribute(30, link_unit, *U64, *range(100, 100 + links))
    return attributes(*reversed(counters), read, written, attribute(31, NONE, *U16, *[1] * links))


def links(read, written, status):
    return (
        struct.pack(f"<{len(read)}Q", *read),
        struct.pack(f"<{len(written)}Q", *written),
        struct.pack(f"<{len(status)}H", *status),
    )


@pytest.mark.parametrize("revision", sorted(ACCUMULATED))
def test_accumulators_are_taken_as_they_are(revision):
    places = [(ACCUMULATED[revision] + 4 * n, "I", 1000 + n) for n in range(6)]
    reading = Decoder().decode(metrics(revision, places))
    assert (reading.accumulator_bits, reading.accumulated) == (32, (1000, 1001, 1002, 1003, 1004, 1005))


def test_accumulators_of_a_file_that_describes_itself_may_come_in_any_order():
    reading = Decoder().decode(attributes_of_1_9())
    assert (reading.accumulator_bits, reading.accumulated) == (64, (1000, 1001, 1002, 1003, 1004, 1005))
    assert Decoder().decode(attributes_of_1_9(accumulator=U32)).accumulator_bits == 32


def test_accumulators_of_an_odd_type_or_number_are_none():
    assert Decoder().decode(attributes_of_1_9(accumulator=(7, "q"))).accumulated == ()
    assert Decoder().decode(attributes(attribute(9, NONE, *U64, 5), attribute(10, NONE, *U64, 1))).accumulated == ()


@pytest.mark.parametrize("revision", sorted(XGMI))
def test_the_counters_of_the_links_are_taken_as_they_are(revision):
    places = [(XGMI[revision] + 8 * n, "Q", n) for n in range(16)]
    status = [(264 + 2 * n, "H", 1) for n in range(8)] if revision in ((1, 7), (1, 8)) else []
    expected = links(range(8), range(8, 16), (1,) * 8 if status else ())
    assert Decoder().decode(metrics(revision, places + status)).links == expected


def test_the_links_of_a_file_that_describes_itself_are_as_many_as_it_says():
    expected = links(range(3), range(100, 103), (1, 1, 1))
    assert Decoder().decode(attributes_of_1_9(links=3)).links == expected
    assert Decoder().decode(attributes_of_1_9(link_unit=NONE)).links == ()


@pytest.mark.parametrize(("revision", "at"), [((1, 3), 112), ((2, 2), 120), ((2, 3), 120), ((2, 4), 120)])
def test_the_bits_of_what_holds_the_clocks_down(revision, at):
    assert Decoder().decode(metrics(revision, [(at, "Q", 1 << 36)])).throttle_status == 1 << 36
    assert Decoder().decode(metrics(revision)).throttle_status is None


@pytest.mark.parametrize("revision", [(1, 0), (1, 2), (1, 5), (2, 1), (3, 0)])
def test_other_revisions_have_no_such_bits(revision):
    """`throttle_status`, which they have, is in the numbers of each chip."""
    assert Decoder().decode(metrics(revision)).throttle_status is None


@pytest.mark.parametrize(("revision", "at", "size"), [((1, 6), 312, 168), ((1, 7), 344, 232), ((1, 8), 344, 440)])
def test_a_partition_s_load_is_the_mean_of_its_dies(revision, at, size):
    places = [(at, "I", 40), (at + 4, "I", 60), (at + 3 * size, "I", 7), (at + 3 * size + 4, "I", 101)]
    raw = metrics(revision, places)
    decoder = Decoder()
    decoder.decode(raw)
    assert [decoder.busy(raw, number, slice(0, 0)) for number in (0, 1, 3)] == [0.5, None, 0.07]


def test_where_load_is_told_by_die_a_partition_s_are_picked_out():
    raw = attributes(attribute(40, PERCENT, *U32, 10, 20, 30, 0xFFFFFFFF))
    decoder = Decoder()
    decoder.decode(raw)
    assert [decoder.busy(raw, 9, dies) for dies in (slice(0, 2), slice(2, 3), slice(3, 4))] == [0.15, 0.3, None]


# Every field


def test_unknown_attributes_are_stepped_over():
    raw = mi350(extra=[attribute(900, 77, *U64, 1, 2, 3), attribute(901, 0, 0, "B", 9)])
    assert parse_gpu_metrics(mi350()).fields == parse_gpu_metrics(raw).fields
    assert Decoder().decode(mi350()) == Decoder().decode(raw)


def test_a_file_without_a_single_attribute_holds_nothing():
    assert Decoder().decode(attributes()) == MetricsReading(*[None] * 9, ())
    assert parse_gpu_metrics(attributes()).fields == {}


def test_an_attribute_of_no_values_is_none():
    raw = attributes(attribute(0, CELSIUS, *U16), attribute(1, CELSIUS, *U16, 64))
    assert parse_gpu_metrics(raw).fields == {"temperature_mem": 64}
    assert Decoder().decode(raw)[1:3] == (None, 64.0)


def test_of_an_attribute_that_comes_twice_the_first_counts():
    raw = attributes(attribute(0, CELSIUS, *U16, 50), attribute(0, CELSIUS, *U16, 60))
    assert parse_gpu_metrics(raw).fields == {"temperature_hotspot": 50}
    assert Decoder().decode(raw).temperature_junction == 50.0


def test_every_field_has_the_kernel_s_name_and_number():
    parsed = parse_gpu_metrics(metrics((1, 3), [*RADEON, *HBM, (112, "Q", 5)]))
    assert (parsed.format_revision, parsed.content_revision) == (1, 3)
    assert parsed.fields["temperature_edge"] == 51
    assert parsed.fields["temperature_hbm"] == (60, 61, 62, 63)
    assert parsed.fields["indep_throttle_status"] == 5
    assert parsed.fields["voltage_gfx"] is None


def test_a_partition_s_file_is_not_taken_for_the_card_s():
    raw = metrics((1, 0), [(4, "H", 2100), (44, "H", 1300), (48, "I", 97)], size=488)
    fields = parse_xcp_metrics(raw).fields
    assert fields["current_gfxclk"][:2] == (2100, None)
    assert (fields["current_uclk"], fields["gfx_busy_inst"][0]) == (1300, 97)
    assert errno_of(parse_xcp_metrics, metrics((1, 3))) == "EBADMSG"


def test_a_partition_s_file_may_describe_itself():
    raw = attributes(attribute(37, MHZ, *U16, 1300), attribute(40, PERCENT, *U32, 97, 0xFFFFFFFF), revision=(1, 1))
    assert parse_xcp_metrics(raw).fields == {"current_uclk": 1300, "gfx_busy_inst": (97, None)}
