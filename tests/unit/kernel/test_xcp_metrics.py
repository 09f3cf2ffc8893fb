import pytest
from kernel_bytes import attribute, attributes, metrics

from rocmwatch.errors import ParseError
from rocmwatch.kernel.xcp_metrics import NO_READING, PartitionDecoder

MHZ, PERCENT, U16, U32 = 1, 10, (2, "H"), (4, "I")


def old(*, clocks=(2100, 2000), loads=(90, 70)):
    places = [(4 + 2 * die, "H", clock) for die, clock in enumerate(clocks)]
    return metrics((1, 0), [*places, *((48 + 4 * die, "I", load) for die, load in enumerate(loads))], size=488)


def new(*, clocks=(2100, 2000), loads=(90, 70), unit=PERCENT):
    return attributes(
        attribute(40, unit, *U32, *loads, *[0xFFFFFFFF] * (8 - len(loads))),
        attribute(33, MHZ, *U16, *clocks, *[0xFFFF] * (8 - len(clocks))),
        revision=(1, 1),
    )


@pytest.mark.parametrize("make", [old, new])
def test_a_partition_is_as_busy_as_its_dies_on_average_and_as_fast_as_the_fastest(make):
    assert (0.8, 2.1e9) == PartitionDecoder().decode(make())


@pytest.mark.parametrize("make", [old, new])
def test_what_cannot_be_true_does_not_count(make):
    assert (0.9, 2.0e9) == PartitionDecoder().decode(make(clocks=(60_000, 2000), loads=(90, 101)))
    assert NO_READING == PartitionDecoder().decode(make(clocks=(), loads=()))


def test_an_attribute_that_was_given_another_meaning_is_not_used():
    assert (None, 2.1e9) == PartitionDecoder().decode(new(unit=MHZ))


def test_a_decoder_follows_its_partition_through_a_change_of_driver():
    decoder = PartitionDecoder()
    for raw in (old(), new(), new(loads=(10,)), old(loads=(20,))):
        assert PartitionDecoder().decode(raw) == decoder.decode(raw)
        with pytest.raises(ParseError):
            decoder.decode(raw[:-1])


@pytest.mark.parametrize("raw", [b"", b"\x01", metrics((1, 3)), metrics((1, 0), size=400)])
def test_another_file_is_refused(raw):
    with pytest.raises(ParseError):
        PartitionDecoder().decode(raw)
