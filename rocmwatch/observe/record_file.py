"""The archive's way to the disk: under another name until it is whole, and searched.

Whatever happens on the way, a full disk or Ctrl-C, there is no half of an archive under the name that was asked for.
"""

import contextlib
import errno
import os
from collections.abc import Iterator

from rocmwatch.errors import RocmwatchError

_MODE = 0o600  # what is in it is for its owner to look at first


class NotWritten(RocmwatchError):
    """There is no archive, and why."""


class Refused(NotWritten):
    """There is something of that name."""


class OutFile:
    """A file that is to be."""

    def __init__(self, path: str, descriptor: int, scratch: str, *, force: bool) -> None:
        self._path = path
        self._descriptor = descriptor
        self._scratch = scratch
        self._force = force

    def write(self, data: bytes) -> bytes:
        """Writes it all, in place of what was written before. Returns what the disk has of it now."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.fsync(self._descriptor)
        with open(self._scratch, "rb") as file:
            return file.read()

    def publish(self) -> None:
        """Gives it its name.

        Raises:
            Refused: When there is something of that name by now.
        """
        if not self._force:
            try:
                os.link(self._scratch, self._path)
            except FileExistsError:
                raise _exists(self._path) from None
            except OSError:  # a file system without hard links
                if os.path.lexists(self._path):
                    raise _exists(self._path) from None
            else:
                return
        os.replace(self._scratch, self._path)


@contextlib.contextmanager
def out_file(path: str, *, force: bool) -> Iterator[OutFile]:
    """A file to be at `path`; without `publish` nothing of it stays.

    Args:
        path: Where to.
        force: Whether to replace what is there.

    Raises:
        Refused: There is something of that name.
        NotWritten: It cannot be written.
    """
    if os.path.isdir(path) or (os.path.lexists(path) and not force):
        raise _exists(path)
    folder, name = os.path.split(os.path.abspath(path))
    scratch = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    except OSError as error:
        raise NotWritten(f"{path}: {error.strerror}; nothing was written") from error
    try:
        _give_to_owner_of(folder, descriptor)
        yield OutFile(path, descriptor, scratch, force=force)
    except OSError as error:
        raise NotWritten(f"{path}: {error.strerror}; nothing was written") from error
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)


def _give_to_owner_of(folder: str, descriptor: int) -> None:
    """Root writes for somebody: for the owner of the folder, who is to send it."""
    owner = os.stat(folder)
    if os.geteuid() == 0 and owner.st_uid != 0:
        try:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP):
                raise


def _exists(path: str) -> Refused:
    what = "a folder" if os.path.isdir(path) else "there already; --force replaces it"
    return Refused(f"{path} is {what}")
