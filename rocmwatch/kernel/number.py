r"""One number, or one line of text, as most of the driver's files hold it.

    8589934592\n            mem_info_vram_used: decimal, one line
    61000\n                 hwmon temp2_input
    \n                      a query that the firmware refused: an empty line (power1_cap)
    61000\n\0\0\0...        what a copied tree may hold: NULs up to a page

Units are those of the file. Source: sysfs_emit("%d\n", ...) and its kin all over drivers/gpu/drm/amd;
Documentation/filesystems/sysfs.rst ("one value per file").
"""

from __future__ import annotations

from rocmwatch.errors import ParseError

BLANK = b"\0 \t\n\v\f\r"
UNDERSCORE = ord("_")
NEWLINE = ord("\n")
LONGEST_TEXT = 256  # bytes of a name; the driver's own buffers are smaller
_SHOWN = 40  # bytes of a refused text that are repeated in the error


def shown(raw: bytes) -> str:
    """The start of some bytes, fit for an error message."""
    return repr(raw[:_SHOWN])[1:]


def parse_number(raw: bytes, low: int, high: int) -> int:
    """The integer in a one-value file.

    Args:
        raw: The file's bytes.
        low: The smallest number that can be true, in the file's unit.
        high: The largest one.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for no integer or one without the end of its line,
            `ERANGE` outside low..high.
    """
    try:
        value = int(raw)  # it takes white space around the digits; the usual b"123\n" costs nothing more
    except ValueError:
        value = _unusual(raw)
    if UNDERSCORE in raw:  # Python's own way to write 1_000, no kernel's
        raise ParseError("EBADMSG", f"no integer: {shown(raw)}")
    if not low <= value <= high:
        raise ParseError("ERANGE", f"{shown(raw)} is not between {low} and {high}")
    if NEWLINE not in raw:  # every one of these files ends in one: the rest of the digits may be missing, too
        raise ParseError("EBADMSG", f"cut short: {shown(raw)}")
    return value


def _unusual(raw: bytes) -> int:
    text = raw.strip(BLANK)
    if not text:
        raise ParseError("ENODATA", "empty")
    try:
        return int(text)
    except ValueError:
        raise ParseError("EBADMSG", f"no integer: {shown(text)}") from None


def parse_text(raw: bytes) -> str | None:
    r"""The line of text in a one-value file, made safe to print.

    Bytes that are no UTF-8 are escaped (`\xff`), control characters become U+FFFD: boards have been seen with both in
    their name fields, and a name ends up in terminals and in metric labels.

    Returns:
        The first line, cut at LONGEST_TEXT bytes, or `None` when there is nothing in it.
    """
    line = raw.strip(BLANK).split(b"\n", 1)[0].strip(BLANK)
    if not line:
        return None
    text = line[:LONGEST_TEXT].decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
