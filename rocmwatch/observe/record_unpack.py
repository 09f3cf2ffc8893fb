"""Unpacks a record for a reading command: plain files, folders and links within the tree, and nothing else.

The archive comes from somebody else. So every path and link is checked before anything is written, files come before
links, so that none is written through one, and the sizes are bounded.
"""

import lzma
import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterator

from rocmwatch.errors import RocmwatchError

LARGEST_BYTES = 512 << 20
MOST_MEMBERS = 200_000
_TOPS = ("sys", "proc", "manifest.json")
_GPU_NODE = re.compile(r"/dev/(?:kfd|dri/(?:renderD|card)[0-9]+)")
_BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)


class NoRecord(RocmwatchError):
    """The file is none that `rocmwatch record` has written."""


def unpack(archive: str, folder: str) -> None:
    """Unpacks a record into an empty folder.

    Raises:
        NoRecord: It is none, or one that was tampered with.
        OSError: It cannot be written.
    """
    links: dict[str, str] = {}
    for path, target, data in _members(archive):
        where = f"{folder}/{path}"
        if target:
            links[path] = target
        elif data is None:
            os.makedirs(where, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(where), exist_ok=True)
            descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
    for path, target in links.items():
        os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
        os.symlink(target, f"{folder}/{path}")


def _members(archive: str) -> Iterator[tuple[str, str, bytes | None]]:
    """(path, what it leads to, content) of each member, all of it checked."""
    seen: set[str] = set()
    total = 0
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                path = _checked(member, archive)
                if not path:
                    continue
                total += member.size
                if path in seen or total > LARGEST_BYTES or len(seen) >= MOST_MEMBERS:
                    raise NoRecord(f"{archive}: no record of rocmwatch: too large, or a path comes twice")
                seen.add(path)
                file = tar.extractfile(member) if member.isreg() else None
                yield path, member.linkname if member.issym() else "", file.read() if file else None
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise NoRecord(f"{archive}: no whole .tar.gz: {error!s:.100}") from error


def _checked(member: tarfile.TarInfo, archive: str) -> str:
    """The path of a member that may be unpacked."""
    path = posixpath.normpath(member.name)
    if path == ".":
        return ""
    inside = path == member.name.rstrip("/").removeprefix("./") and path.split("/")[0] in _TOPS
    if inside and member.issym():
        inside = bool(_GPU_NODE.fullmatch(member.linkname)) or _leads_inside(path, member.linkname)
    if not inside or not (member.isreg() or member.isdir() or member.issym()):
        raise NoRecord(f"{archive}: no record of rocmwatch: it holds {member.name[:100]!r}")
    return path


def _leads_inside(path: str, target: str) -> bool:
    if target.startswith("/"):
        return False
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).split("/")[0] in _TOPS
