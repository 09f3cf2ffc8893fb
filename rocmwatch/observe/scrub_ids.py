r"""Ids and the host's name: found wherever they are, however they are written.

A chip's id is 16 hexadecimal digits in one file and decimal in another; a serial number may be in capitals somewhere, a
host's name with `\x2d` for its dashes, as systemd writes it. Each form of a thing becomes the same form of one other.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable

SMALLEST_ID = 1 << 40  # a smaller number is none that a chip was given for good
SHORTEST_TEXT = 4
SURE_TEXT = 8  # from here on a text with digits in it is found inside other words, too
WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")
_TRIES = 200
_BETWEEN_WORDS = rb"(?:(?<![0-9A-Za-z])|(?<=[^0-9A-Za-z]0[xX]))(?:%s)(?![0-9A-Za-z])"
_HEX = re.compile(rb"(?=.*[0-9])(?=.*[A-Fa-f])(?:[0-9a-f]{8,}|[0-9A-F]{8,})")
_HEX_GROUPS = re.compile(
    rb"[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}"
)
_DIGITS, _LOWER, _UPPER = b"0123456789", b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def spellings(number: int) -> tuple[bytes, ...]:
    """How an id may be written, in small letters: decimal, hexadecimal, and that with zeros in front."""
    return b"%d" % number, b"%x" % number, b"%016x" % number


def alike(text: bytes, drawn: bytes) -> bytes:
    """A text of the same form: digits for digits, letters for letters, hexadecimal for what is hexadecimal.

    Args:
        text: What to be like.
        drawn: As many random bytes.
    """
    result = bytearray(text)
    groups = _HEX_GROUPS.fullmatch(text)
    for match in WORD.finditer(text):
        in_hex = bool(groups or _HEX.fullmatch(match[0]))
        for at in range(*match.span()):
            result[at] = _like(text[at], drawn[at], in_hex=in_hex)
        if (
            not in_hex and match[0].isdigit() and text[match.start()] != _DIGITS[0]
        ):  # no zero in front that was not there
            result[match.start()] = _DIGITS[1 + drawn[match.start()] % 9]
    return bytes(result)


def _like(old: int, drawn: int, *, in_hex: bool) -> int:
    if in_hex:
        small = b"0123456789abcdef"[drawn % 16]
        return bytes((small,)).upper()[0] if old in _UPPER else small
    if old in _DIGITS:
        return _DIGITS[drawn % 10]
    return _UPPER[drawn % 26] if old in _UPPER else _LOWER[drawn % 26]


class Maker:
    """Makes replacements, each once.

    Attributes:
        taken: What a replacement must not be: whatever has to be replaced, and the other replacements.
    """

    def __init__(self, key: bytes) -> None:
        self.taken: set[bytes] = set()
        self._key = key

    def text(self, text: bytes, public: Collection[bytes] = ()) -> bytes:
        """Something else of the same form; longer where there is nothing left of that length."""
        for attempt in range(_TRIES):
            wanted = text + b"0" * (attempt // 50)
            found = alike(wanted, self._draw(text, attempt, len(wanted)))
            if self.taken.isdisjoint((found, *WORD.findall(found))) and found.lower() not in public:
                self.taken.add(found)
                return found
        raise AssertionError  # of a thousand times as many as there can be

    def number(self, number: int) -> int:
        """Another one with as many hexadecimal digits."""
        low = 1 << (number.bit_length() - 1) // 4 * 4
        for attempt in range(_TRIES):
            found = low + int.from_bytes(self._draw(b"%d" % number, attempt, 16), "big") % (low * 15)
            if self.taken.isdisjoint(spellings(found)):
                self.taken.update(spellings(found))
                return found
        raise AssertionError

    def _draw(self, text: bytes, attempt: int, size: int) -> bytes:
        seed = hmac.new(self._key, b"%d %s" % (attempt, text), hashlib.sha256).digest()
        return hashlib.shake_256(seed).digest(size)


class Ids:
    """What is replaced wherever it is.

    Attributes:
        numbers: The ids that are numbers.
        anywhere: Each other one that can be looked for anywhere.
        in_names: Those that are too short or too common for that, so that they are replaced in names only.
    """

    def __init__(self, numbers: Iterable[int], texts: Iterable[bytes], public: Collection[bytes], maker: Maker) -> None:
        """Gives each of them its replacement.

        Args:
            numbers: Ids; small ones are none.
            texts: Ids and names of the host.
            public: Words in small letters that a text must not be made of to be looked for anywhere.
            maker: Makes replacements.
        """
        self.numbers = tuple(sorted({number for number in numbers if number >= SMALLEST_ID}))
        forms = {form for number in self.numbers for form in spellings(number)}
        others = sorted({text for text in texts if WORD.search(text) and text.lower() not in forms})
        maker.taken |= forms.union(others)
        self._forms: dict[bytes, bytes] = {}
        for number in self.numbers:
            self._forms.update(zip(spellings(number), spellings(maker.number(number)), strict=True))
        for text in others:
            other = maker.text(text, public)
            self._forms[text] = other
            self._forms[text.replace(b"-", rb"\x2d")] = other.replace(b"-", rb"\x2d")
        self.anywhere = tuple(text for text in others if _is_distinct(text, public))
        self.in_names = tuple(text for text in others if text not in self.anywhere)
        self._small = {old.lower(): new.lower() for old, new in self._forms.items()}
        self._pattern = self.pattern(*self.anywhere)
        self._pattern_in_names = self.pattern(*others)

    def pattern(self, *texts: bytes) -> "re.Pattern[bytes]":
        """What finds the numbers, and these texts, in whatever form."""
        sure = [form for number in self.numbers for form in spellings(number)]
        sure += [text for text in texts if _is_sure(text)]
        words = [form for text in texts for form in {text, text.replace(b"-", rb"\x2d")} if not _is_sure(text)]
        found = [_any_of(sure)] if sure else []
        found += [_BETWEEN_WORDS % _any_of(words)] if words else []
        return re.compile(b"(?i)" + b"|".join(found)) if found else re.compile(b"(?!)")

    def replace(self, data: bytes) -> bytes:
        """The data without any of them that can be looked for anywhere."""
        return self._pattern.sub(self._other, data)

    def replace_line(self, data: bytes) -> bytes:
        """The content of a file that is nothing but one of them."""
        line = data.strip(b"\0 \t\r\n")
        return data.replace(line, self._forms[line]) if line in self._forms else self.replace(data)

    def split(self, name: bytes) -> "Iterable[tuple[bytes, bytes]]":
        """A name in pieces: (what is none of them, what comes for the one behind it)."""
        end = 0
        for match in self._pattern_in_names.finditer(name):
            yield name[end : match.start()], self._other(match)
            end = match.end()
        yield name[end:], b""

    def _other(self, match: "re.Match[bytes]") -> bytes:
        found = match[0]
        if found in self._forms:
            return self._forms[found]
        other = self._small[found.lower()]
        return other.upper() if found.isupper() else other


def _any_of(texts: Iterable[bytes]) -> bytes:
    return b"|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


def _is_sure(text: bytes) -> bool:
    return len(text) >= SURE_TEXT and sum(chr(byte).isdigit() for byte in text) >= SURE_TEXT // 2


def _is_distinct(text: bytes, public: Collection[bytes]) -> bool:
    """Whether a text is none that the kernel would use as well: one of several words, or one that is not its own."""
    common = text.lower() in public or (text.isdigit() and len(text) < SURE_TEXT)
    return len(text) >= SHORTEST_TEXT and not common
