"""Which versions of wrapper and library belong together."""

from __future__ import annotations

import pytest

from rocmwatch.observe.amdsmi_versions import (
    in_words,
    is_named_after_rocm,
    parse_version,
    release_in_name,
    wrapper_version,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("7.0.2", (7, 0, 2)),
        ("7.0.2-56\n", (7, 0, 2)),
        ("24.7.1+39b7f94", (24, 7, 1)),
        ("6.2.2.post0", (6, 2, 2)),
        ("7.0", None),
        ("", None),
        ("rocm", None),
        ("7.0.20251", None),
    ],
)
def test_the_first_three_numbers_are_the_version(text: str, version: tuple[int, int, int] | None) -> None:
    assert version == parse_version(text)


@pytest.mark.parametrize("source", ['__version__ = "26.0.2+39b7f94"', "# old\n__version__='26.0.2'\n"])
def test_a_wrapper_says_its_version(source: str) -> None:
    assert wrapper_version(source) == (26, 0, 2)


@pytest.mark.parametrize("source", ["", "version = '26.0.2'", '__version__ = "${VERSION}"'])
def test_a_wrapper_without_one_has_none(source: str) -> None:
    assert wrapper_version(source) is None


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libamd_smi.so.26.0.70002", (7, 0, 2)),
        ("libamd_smi.so.24.7.60303", (6, 3, 3)),
        ("libamd_smi.so.27.0.100000", (10, 0, 0)),
        ("libamd_smi.so.26.5.0", None),
        ("libamd_smi.so.26", None),
        ("libamd_smi.so", None),
        ("librocm_smi64.so.7.7.60303", None),
    ],
)
def test_the_name_of_a_library_tells_the_release_of_rocm(name: str, version: tuple[int, int, int] | None) -> None:
    assert version == release_in_name(name)


def test_rocm_and_the_library_count_differently() -> None:
    assert is_named_after_rocm((10, 0, 0))
    assert not is_named_after_rocm((23, 4, 0))


def test_versions_are_written_with_points() -> None:
    assert in_words((7, 0, 2)) == "7.0.2"
    assert in_words(None) == "unknown"
