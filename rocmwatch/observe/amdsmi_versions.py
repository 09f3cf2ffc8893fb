"""Which version a wrapper and a library are of, and whether they belong together.

A wrapper of another version than its library imports without a word, then reads fields that have moved, and in the end
writes past the library's memory. Two numberings are in use: the library has its own (26.0.2), which the wrapper that
comes with ROCm shares, while the wrapper on PyPI is named after the release of ROCm that it was cut from (7.0.2).

    amdsmi_get_lib_version   year 24, major 7, minor 1, release 0   or   major 26, minor 0, release 2
    libamd_smi.so.26.0.70002                   the file of ROCm 7.0.2
    .info/version: 7.0.2-56                    in ROCm's folder
"""

import re

Version = tuple[int, int, int]

_ASSIGNED = re.compile(r"""^__version__\s*=\s*["']([^"']*)["']""", re.MULTILINE)
_THREE = re.compile(r"\s*(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?!\d)")
_PATCHED_NAME = re.compile(r"libamd_smi\.so(?:\.\d+)*\.(\d{1,2})(\d\d)(\d\d)")
_FIRST_OF_LIBRARY = 20  # the library counts from the year, 23 and later; ROCm is at 10


def parse_version(text: str) -> Version | None:
    """The first three numbers: (7, 0, 2) of `7.0.2-56`, (24, 7, 1) of `24.7.1+39b7f94`."""
    match = _THREE.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def wrapper_version(source: str) -> Version | None:
    """The version that a wrapper's `_version.py` assigns."""
    match = _ASSIGNED.search(source)
    return parse_version(match[1]) if match else None


def release_in_name(name: str) -> Version | None:
    """The release of ROCm in the name of a library's file."""
    match = _PATCHED_NAME.fullmatch(name)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def is_named_after_rocm(wrapper: Version) -> bool:
    """Whether a wrapper's version is a release of ROCm, and not the library's own."""
    return wrapper[0] < _FIRST_OF_LIBRARY


def in_words(version: Version | None) -> str:
    """`7.0.2`."""
    return "unknown" if version is None else ".".join(map(str, version))
