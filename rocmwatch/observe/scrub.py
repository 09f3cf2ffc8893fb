"""Replaces what tells whose node a record is of. Pure: bytes in, bytes out.

The same thing is replaced by the same thing wherever it is, so that what belongs together still does: an id that two
files have, or a control group that a process names and a folder is called by. A replacement has the length and the form
of what it replaces, is made with a key that nobody keeps, and is none of the things that had to be replaced.

Ids and the host's name are looked for everywhere (scrub_ids.py). Names that people chose (programs, control groups,
arguments) are replaced word by word, all but the words that are known to say nothing (scrub_words.py) and those that
the kernel itself uses in the same record; numbers of up to three digits stay. Of the value of an argument, nothing
stays.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from rocmwatch.observe.record_table import (
    BINARY,
    CGROUPS,
    CMDLINE,
    FDINFO,
    HOST,
    ID,
    KERNEL,
    NAME,
    NAME_RULES,
    NUMBER,
    PROPERTIES,
    STAT,
    STATUS,
    TEXT,
)
from rocmwatch.observe.scrub_ids import WORD, Ids, Maker
from rocmwatch.observe.scrub_words import ARGUMENTS, WORDS

_UUID = rb"[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}"
_ALONE = rb"(?<![0-9A-Za-z.:])%s(?![0-9A-Za-z.:])"
_PCI = _ALONE % rb"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_MAC = _ALONE % rb"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}"
_IPV4 = _ALONE % rb"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
_TOKEN = re.compile(rb"(?P<pci>%s)|%s|%s|%s|pod(?=%s)|[0-9A-Za-z\x80-\xff]+" % (_PCI, _UUID, _MAC, _IPV4, _UUID))
_NO_HOSTS = frozenset({b"localhost", b"(none)", b"none"})
_NUMBERED = re.compile(rb"([a-z]+)[0-9]{0,3}")
_ID_LINE = re.compile(rb"(?m)^(?:unique_id|hive_id) ([0-9]{1,20})$")
_ID_NUMBER = re.compile(rb"(?:0[xX])?([0-9a-fA-F]{16})|0[xX]([0-9a-fA-F]{1,15})|([0-9]{1,20})")
_STAT = re.compile(rb"(?s)(\s*[0-9]+ \()(.*)(\) .*)")
_STAT_FIELDS = 22  # those behind the name that are kept; addresses come later
_STATUS_KEPT = frozenset(
    b"Name Uid State Tgid Ngid Pid PPid TracerPid FDSize NStgid NSpid Threads SigQ SigPnd ShdPnd SigBlk SigIgn SigCgt "
    b"VmPeak VmSize VmRSS RssAnon RssFile RssShmem VmSwap".split()
)
_STATUS_NAMES = (b"Name", b"Uid")
_OPTION = re.compile(rb"--?[A-Za-z][A-Za-z0-9_.-]*")
_SMALL_NUMBER = re.compile(rb"[0-9]{1,3}(?:\.[0-9]{1,3})?")
_FDINFO_VALUE = re.compile(rb"[0-9a-fA-F:.]*(?: ?(?:kB|[KMG]iB|ns|%|Hz|MHz))?|amdgpu")


class Name(Protocol):
    """What becomes of a text that people chose."""

    def __call__(self, text: bytes, *, in_value: bool = False) -> bytes:
        """The text that comes for it; `in_value` tells that it is the value of an argument."""


class Piece(NamedTuple):
    """A file: what its bytes are (record_table.py), the bytes, and what of its path the kernel has named."""

    rule: str
    data: bytes
    kernel_path: str = ""


class Scrubber:
    """Knows what has to be replaced in one record, and by what.

    Attributes:
        ids: What is replaced wherever it is.
        words: Words of names.
    """

    def __init__(self, key: bytes, pieces: Iterable[Piece], names: Iterable[str]) -> None:
        """Learns from everything first: only then is it known what a replacement must not be.

        Args:
            key: Makes the replacements.
            pieces: Every file.
            names: Every part of a path that people may have named.
        """
        pieces, names = list(pieces), list(names)
        maker = Maker(key)
        self.ids, self._public = Ids((), (), (), maker), frozenset[bytes]()
        self._public = frozenset(self._public_words(pieces))
        numbers, texts = _ids(pieces)
        self.ids = Ids(numbers, texts, self._public, maker)
        found = {word for name in self._all_names(pieces, names) for word in self._words_of(name)}
        maker.taken |= found
        self.words: Mapping[bytes, bytes] = {word: maker.text(word, self._public) for word in sorted(found)}

    def content(self, piece: Piece) -> bytes:
        """The bytes of a file, scrubbed."""
        return _RULES[piece.rule](self, piece.data, self._name)

    def path(self, path: str) -> str:
        """A part of a path that people may have named, scrubbed."""
        return self._name(_raw(path)).decode("utf-8", "surrogateescape")

    def names_in(self, piece: Piece) -> list[bytes]:
        """The texts in a file that people chose."""
        found: list[bytes] = []
        if piece.rule in NAME_RULES:
            _RULES[piece.rule](self, piece.data, _noting(found))
        return found

    def is_known(self, word: bytes) -> bool:
        """Whether a word of a name says nothing."""
        if word.isdigit():
            return len(word) <= 3
        low = word.lower()
        numbered = _NUMBERED.fullmatch(low)
        known = low in self._public or (numbered is not None and numbered[1].decode() in WORDS)
        return known or not low.strip(b"x")  # what a known word in a value becomes

    def _all_names(self, pieces: Iterable[Piece], names: Iterable[str]) -> Iterator[bytes]:
        for piece in pieces:
            yield from self.names_in(piece)
        yield from map(_raw, names)

    def _public_words(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """The words that the kernel and the board use, in small letters."""
        for piece in pieces:
            data = piece.data if piece.rule in (KERNEL, PROPERTIES) else b""
            if piece.rule in (STAT, STATUS, FDINFO):  # but for the names in them
                data = _RULES[piece.rule](self, piece.data, _blank)
            for word in WORD.findall(data + b" " + _raw(piece.kernel_path)):
                if not word.isdigit():
                    yield word.lower()

    def _words_of(self, name: bytes) -> Iterator[bytes]:
        """The words of a name that have to be replaced, ids apart."""
        for between, _ in self.ids.split(name):
            for match in _TOKEN.finditer(between):
                if not match["pci"] and not self.is_known(match[0]):
                    yield match[0]

    def _name(self, text: bytes, *, in_value: bool = False) -> bytes:
        def token(match: "re.Match[bytes]") -> bytes:
            return match[0] if match["pci"] else self._word(match[0], in_value=in_value)

        return b"".join(_TOKEN.sub(token, between) + other for between, other in self.ids.split(text))

    def _word(self, word: bytes, *, in_value: bool) -> bytes:
        if not self.is_known(word):
            return self.words.get(word, b"x" * len(word))
        if not in_value:
            return word
        return (b"0" if word.isdigit() else b"x") * len(word)

    # The rules

    def _kernel(self, data: bytes, _: Name) -> bytes:
        return self.ids.replace(data)

    def _binary(self, data: bytes, _: Name) -> bytes:
        return data

    def _id(self, data: bytes, _: Name) -> bytes:
        return self.ids.replace_line(data)

    def _text(self, data: bytes, _: Name) -> bytes:
        """May repeat names that are replaced elsewhere."""
        return WORD.sub(lambda match: self.words.get(match[0], match[0]), self.ids.replace(data))

    def _whole(self, data: bytes, name: Name) -> bytes:
        return name(data)

    def _stat(self, data: bytes, name: Name) -> bytes:
        match = _STAT.fullmatch(data)
        if match is None:
            return name(data)
        fields = match[3].split(b" ")
        rest = [b"0"] * (len(fields) - 1 - _STAT_FIELDS)
        return match[1] + name(match[2]) + b" ".join((*fields[: _STAT_FIELDS + 1], *rest)) + b"\n"

    def _status(self, data: bytes, name: Name) -> bytes:
        kept = []
        for line in data.splitlines(keepends=True):
            key, colon, value = line.partition(b":")
            if colon and key in _STATUS_KEPT:
                kept.append(key + colon + (name(value) if key in _STATUS_NAMES else value))
        return b"".join(kept)

    def _fdinfo(self, data: bytes, name: Name) -> bytes:
        lines = []
        for line in data.splitlines(keepends=True):
            key, colon, value = line.partition(b":")
            is_plain = colon and _FDINFO_VALUE.fullmatch(value.strip())
            lines.append(self.ids.replace(line) if is_plain else key + colon + name(value))
        return b"".join(lines)

    def _cmdline(self, data: bytes, name: Name) -> bytes:
        program, *arguments = data.split(b"\0")
        base = program.rpartition(b"/")[2]
        return b"\0".join((name(base) if base else b"", *(self._argument(one, name) for one in arguments)))

    def _argument(self, argument: bytes, name: Name) -> bytes:
        if argument in ARGUMENTS or _SMALL_NUMBER.fullmatch(argument):
            return argument
        option, equals, value = argument.partition(b"=")
        if _OPTION.fullmatch(option) and all(map(self.is_known, WORD.findall(option))):
            return name(option) + equals + (self._argument(value, name) if value else b"")
        return name(argument, in_value=True) if argument else b""


_RULES: "Mapping[str, Callable[[Scrubber, bytes, Name], bytes]]" = {
    KERNEL: Scrubber._kernel,
    BINARY: Scrubber._binary,
    TEXT: Scrubber._text,
    NUMBER: Scrubber._id,
    ID: Scrubber._id,
    HOST: Scrubber._id,
    PROPERTIES: Scrubber._kernel,
    NAME: Scrubber._whole,
    STAT: Scrubber._stat,
    STATUS: Scrubber._status,
    CGROUPS: Scrubber._whole,
    CMDLINE: Scrubber._cmdline,
    FDINFO: Scrubber._fdinfo,
}


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _blank(text: bytes, *, in_value: bool = False) -> bytes:
    del text, in_value
    return b" "


def _noting(found: list[bytes]) -> Name:
    def note(text: bytes, *, in_value: bool = False) -> bytes:
        del in_value
        found.append(text)
        return text

    return note


def _ids(pieces: Iterable[Piece]) -> tuple[set[int], set[bytes]]:
    """(numbers, texts) that the files of ids hold."""
    numbers: set[int] = set()
    texts: set[bytes] = set()
    for piece in pieces:
        line = piece.data.strip(b"\0 \t\r\n")
        number = _ID_NUMBER.fullmatch(line) if piece.rule == NUMBER else None
        if piece.rule == PROPERTIES:
            numbers.update(int(match[1]) for match in _ID_LINE.finditer(piece.data))
        elif number is not None:
            digits = number[1] or number[2]
            numbers.add(int(digits, 16) if digits else int(number[3]))
        elif piece.rule in (NUMBER, ID) and not _says_nothing(line):
            texts.add(line)
        elif piece.rule == HOST:
            texts |= {line, line.partition(b".")[0]} - _NO_HOSTS
    return numbers, texts


def _says_nothing(text: bytes) -> bool:
    """Whether it is `N/A`, `unknown`, `0000` or `To be filled by O.E.M.`, and no id."""
    words = WORD.findall(text)
    return all(word.lower().decode("latin-1") in WORDS or not word.strip(b"0") for word in words)
