"""A file that changes while others read it.

A reader that holds the file open must see the old bytes or the new ones, never an empty file and never half a number.
A `pwrite` over bytes that are there changes them at once as far as a reader of a short text can tell: it lies in one
cache line. (A longer one may be seen half old and half new: of numbers in columns, each is then one or the other.)
What would show is a new length, as the size changes apart from the bytes. So a text that grows is first lengthened by
newlines, and one that shrinks is overwritten with newlines behind it and cut afterwards. White space behind a number
is what every reader of such files strips, and a NUL, which a cut may show for an instant.
"""

from __future__ import annotations

import os


class LiveFile:
    """A file of the tree, kept open.

    Attributes:
        text: What is in it.
    """

    __slots__ = ("_file", "text")

    def __init__(self, path: str, text: bytes) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.text = text

    def write(self, text: bytes) -> None:
        """Replaces the bytes in place: the inode stays. Does nothing when they are the same."""
        if text == self.text:
            return
        length, before = len(text), os.fstat(self._file).st_size  # someone may have put a fault in
        if length > before:
            os.pwrite(self._file, b"\n" * (length - before), before)
        os.pwrite(self._file, text.ljust(before, b"\n"), 0)
        if length < before:
            os.ftruncate(self._file, length)
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
