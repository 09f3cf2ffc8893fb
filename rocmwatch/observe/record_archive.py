"""A recording as an archive: scrubbed, with a manifest, and the same bytes for the same recording and key."""

import gzip
import io
import json
import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocmwatch.observe.record import READ, SKIPPED, Entry, Recording
from rocmwatch.observe.record_survey import CGROUP_ROOT
from rocmwatch.observe.record_table import BINARY, CGROUP, SCRUBBED, items
from rocmwatch.observe.scrub import Piece, Scrubber
from rocmwatch.observe.scrub_ids import WORD

SCHEMA = "rocmwatch/record/1"
MANIFEST = "manifest.json"
BELOW_A_LINK = "below a link"
_CGROUP_FILES = frozenset({"dmem.capacity", *(item.path for item in items(CGROUP))})
_OSRELEASE = "proc/sys/kernel/osrelease"
_DRIVER = "sys/module/amdgpu/version"


class About(NamedTuple):
    """What the manifest says of the record itself.

    Attributes:
        version: Of rocmwatch.
        taken_at: As RFC 3339 writes it.
        of_tree: Whether it is of a tree (`--root`), and not of the machine.
    """

    version: str
    taken_at: str
    of_tree: bool


class Archive(NamedTuple):
    """The finished bytes, and what is needed to search them.

    Attributes:
        data: A .tar.gz.
        scrubber: Knows what must not be in it.
        rules: Path to what the bytes of that file are.
        replaced: How many of what were replaced.
    """

    data: bytes
    scrubber: Scrubber
    rules: dict[str, str]
    replaced: dict[str, int]


def build(recording: Recording, key: bytes, about: About) -> Archive:
    """Scrubs a recording, and packs it."""
    entries = [_apart(entry, recording.links) for entry in recording.entries]
    scrubber = Scrubber(
        key,
        (Piece(entry.rule, entry.data, _split(entry.path)[0]) for entry in entries if entry.data),
        (_split(entry.path)[1] for entry in entries),
    )
    files: dict[str, bytes] = {}
    rules: dict[str, str] = {}
    rows = []
    for entry in entries:
        if not entry.path:
            continue
        path = _scrubbed(entry.path, scrubber)
        row: dict[str, object] = {"path": f"/{path}", "outcome": entry.outcome}
        if entry.outcome == READ:
            files[path], rules[path] = scrubber.content(Piece(entry.rule, entry.data)), entry.rule
            row["bytes"] = len(files[path])
            if files[path] != entry.data or path != entry.path:
                row["scrubbed"] = True
        elif entry.why:
            row["errno" if re.fullmatch("E[A-Z0-9]+", entry.why) else "why"] = entry.why
        rows.append(row)
    replaced = {
        "ids": len(scrubber.ids.numbers) + len(scrubber.ids.anywhere) + len(scrubber.ids.in_names),
        "words_of_names": len(scrubber.words),
    }
    manifest = {
        "schema": SCHEMA,
        "taken_at": about.taken_at,
        "rocmwatch": about.version,
        "of": "a tree" if about.of_tree else "this machine",
        "kernel_release": _line(files.get(_OSRELEASE)),
        "driver_version": _line(files.get(_DRIVER)),
        "gpus": list(recording.gpus),
        "outcomes": dict(sorted(Counter(str(row["outcome"]) for row in rows).items())),
        "replaced": replaced,
        "files": rows,
    }
    files[MANIFEST] = json.dumps(manifest, indent=1).encode() + b"\n"
    return Archive(_packed(files, recording.links, recording.folders), scrubber, rules, replaced)


def leaks(archive: Archive, data: bytes) -> list[str]:
    """The paths in a finished archive that hold something that had to be replaced.

    Args:
        archive: As it was made.
        data: As it was found on the disk.
    """
    search = _Search(archive.scrubber)
    found = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            content = file.read() if file else b""
            name = member.name.encode("utf-8", "surrogateescape")
            link = member.linkname.encode("utf-8", "surrogateescape")
            rule = archive.rules.get(member.name, BINARY)
            chosen = _split(member.name)[1].encode("utf-8", "surrogateescape")
            if (
                any(map(search.has_id, (name, link, content)))
                or (rule != BINARY and search.has_word(content))
                or any(map(search.has_name, (chosen, *archive.scrubber.names_in(Piece(rule, content)))))
            ):
                found.append(member.name)
    return found


class _Search:
    """Finds what was replaced, in whatever form."""

    def __init__(self, scrubber: Scrubber) -> None:
        ids = scrubber.ids
        self._ids = ids.pattern(*ids.anywhere)
        self._ids_in_names = ids.pattern(*ids.anywhere, *ids.in_names)
        self._bytes = [number.to_bytes(8, order) for number in ids.numbers for order in ("little", "big")]
        single = {word for word in scrubber.words if WORD.fullmatch(word)}
        self._numbers = {word for word in single if word.isdigit()}  # which may be anything elsewhere
        self._words = single - self._numbers
        self._others = [
            re.compile(rb"(?<![0-9A-Za-z])%s(?![0-9A-Za-z])" % re.escape(word))
            for word in scrubber.words.keys() - single
        ]

    def has_id(self, data: bytes) -> bool:
        return bool(self._ids.search(data)) or any(number in data for number in self._bytes)

    def has_word(self, data: bytes) -> bool:
        return not self._words.isdisjoint(WORD.findall(data)) or any(other.search(data) for other in self._others)

    def has_name(self, text: bytes) -> bool:
        return (
            self.has_word(text)
            or bool(self._ids_in_names.search(text))
            or not self._numbers.isdisjoint(WORD.findall(text))
        )


def is_scrubbed(path: str, rule: str) -> bool:
    """Whether something in a file, or in its path, may be replaced."""
    return rule in SCRUBBED or bool(_split(path)[1])


def _split(path: str) -> tuple[str, str]:
    """(what the kernel has named in a path, what people have)."""
    if not path.startswith(f"{CGROUP_ROOT}/"):
        return path, ""
    rest = path.removeprefix(f"{CGROUP_ROOT}/")
    group, _, name = rest.rpartition("/")
    return (f"{CGROUP_ROOT}/{name}", group) if name in _CGROUP_FILES else (CGROUP_ROOT, rest)


def _scrubbed(path: str, scrubber: Scrubber) -> str:
    kernel, chosen = _split(path)
    if not chosen:
        return path
    name = posixpath.basename(kernel) if kernel != CGROUP_ROOT else ""
    return "/".join(filter(None, (CGROUP_ROOT, scrubber.path(chosen), name)))


def _apart(entry: Entry, links: Iterable[str]) -> Entry:
    """A file whose folder turned out to be a link as well is left out: no archive can hold both."""
    folder = posixpath.dirname(entry.path)
    while entry.outcome == READ and folder:
        if folder in links:
            return entry._replace(outcome=SKIPPED, data=b"", why=BELOW_A_LINK)
        folder = posixpath.dirname(folder)
    return entry


def _line(data: bytes | None) -> str | None:
    return None if data is None else data.strip(b"\0 \n").decode("utf-8", "backslashreplace")


def _packed(files: dict[str, bytes], links: dict[str, str], folders: Iterable[str]) -> bytes:
    """A .tar.gz of them, in the order of their paths."""
    members: dict[str, tuple[bytes, str, bytes]] = {path: (tarfile.REGTYPE, "", data) for path, data in files.items()}
    for path, target in links.items():
        members.setdefault(path, (tarfile.SYMTYPE, target, b""))
    for path in {*folders, *(parent for member in members for parent in _parents(member))}:
        members.setdefault(path, (tarfile.DIRTYPE, "", b""))
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, (kind, target, data) in sorted(members.items()):
            info = tarfile.TarInfo(path)
            info.type, info.linkname, info.size = kind, target, len(data)
            info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o777 if kind == tarfile.SYMTYPE else 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
