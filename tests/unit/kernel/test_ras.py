import pytest

from rocmwatch.errors import ParseError
from rocmwatch.kernel.ras import block_of, parse_error_counts


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"ue: 0\nce: 12\n", (0, 12, None)),
        (b"ue: 3\nce: 0\nde: 1\n", (3, 0, 1)),
        (b"ce: 2\nue: 1\n", (1, 2, None)),
        (b"ue: 0\nce: 1\nxe: 9\n", (0, 1, None)),
        (b"ue: 0\nce: 1\n\0\0\0", (0, 1, None)),
    ],
)
def test_errors_are_counted_by_severity(raw, expected):
    assert expected == parse_error_counts(raw)


def test_a_card_that_is_being_reset_cannot_be_asked():
    assert parse_error_counts(b"Query currently inaccessible\n") is None


@pytest.mark.parametrize(
    ("raw", "errno"),
    [
        (b"", "ENODATA"),
        (b"\n", "ENODATA"),
        (b"ue: 0\n", "EBADMSG"),
        (b"ce: 0\n", "EBADMSG"),
        (b"ue: 0\nce: 12", "EBADMSG"),
        (b"ue: 0\nce: \n", "EBADMSG"),
        (b"ue: 0\nce: -1\n", "EBADMSG"),
        (b"ue: 0\nue: 1\nce: 0\n", "EBADMSG"),
        (b"12\n", "EBADMSG"),
        (b"Query currently\n", "EBADMSG"),
        (b"ue: 0\nce: 18446744073709551615\n", "ERANGE"),
    ],
)
def test_anything_else_is_refused(raw, errno):
    with pytest.raises(ParseError) as caught:
        parse_error_counts(raw)
    assert errno == caught.value.errno


@pytest.mark.parametrize(
    ("file", "block"),
    [
        ("umc_err_count", "umc"),
        ("pcie_bif_err_count", "pcie_bif"),
        ("mca_mp0_err_count", "mca_mp0"),
        ("_err_count", None),
        ("features", None),
        ("gpu_vram_bad_pages", None),
        ("event_state", None),
        ("aca_umc", None),
        ("umc_err_count.bak", None),
        ("../umc_err_count", None),
        ("UMC_err_count\n", None),
    ],
)
def test_a_block_is_told_by_the_name_of_its_file(file, block):
    assert block == block_of(file)
