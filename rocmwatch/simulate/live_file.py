"""A file that changes while others read it.

A reader that holds the file open must see the old bytes or the new ones, never an empty file and never half a number.
A `pwrite` over bytes that are there changes them at once as far as a reader of a short text can tell: it lies in one
cache line, and none was seen torn in millions of reads. (A longer one may be seen half old and half new: of binary
fields, and of numbers in columns, each is then one or the other.)
What would show is a new length: a reader looks at the size first and copies afterwards, so that it may cut the new text
to the old size. A text that grows is therefore given room before (newlines, which every reader of such files strips),
and written when reads that began before must be over. One that shrinks is cut after it was written.
"""

from __future__ import annotations

import os

GRACE_SECONDS = 0.01  # long for a read that is already under way


class LiveFile:
    """A file of the tree, kept open.

    Attributes:
        text: What is in it.
    """

    __slots__ = ("_file", "text")

    def __init__(self, path: str, text: bytes) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.text = text

    def make_room(self, text: bytes) -> bool:
        """Lengthens the file by newlines if the text needs it; if so, `GRACE_SECONDS` have to pass before `write`."""
        missing = len(text) - len(self.text)
        if missing <= 0:
            return False
        size = os.fstat(self._file).st_size
        os.pwrite(self._file, b"\n" * max(0, len(text) - size), size)
        return True

    def write(self, text: bytes) -> None:
        """Replaces the bytes in place: the inode stays. Does nothing when they are the same."""
        if text == self.text:
            return
        size = os.fstat(self._file).st_size  # and not what was written last: someone may have put a fault in
        os.pwrite(self._file, text.ljust(size, b"\n"), 0)
        if len(text) < size:
            os.ftruncate(self._file, len(text))
        self.text = text

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)


def replace_file(path: str, text: bytes, scratch: str) -> None:
    """Gives the name to a new file: for long texts that are opened anew for each reading.

    A long text cannot change at once under a reader. With a new inode, a reader that opens the file as it reads gets
    the old table or the new one.

    Args:
        path: The file.
        text: What it is to hold.
        scratch: A name that is free, on the same file system, where nobody looks.
    """
    file = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, text)
    finally:
        os.close(file)
    os.replace(scratch, path)
