"""Writes a tree of files, folders and links, laid out as sysfs lays out its own."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

_MODE = 0o644


@dataclass(slots=True)
class Tree:
    """What is to be written, by path below the root, without a leading slash.

    Attributes:
        files: Path to bytes.
        links: Path to the path that it leads to.
        folders: Folders that must be there even when nothing is in them.
        pointers: Links that hold their text as it is: out of the tree, and to nothing perhaps.
        pipes: FIFOs.
        renewed: Files that are opened for each reading: a change gives their name to a new file.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    pointers: dict[str, str] = field(default_factory=dict)
    pipes: set[str] = field(default_factory=set)
    renewed: set[str] = field(default_factory=set)

    def text(self, folder: str, /, **lines: str) -> None:
        """Adds files of one line (or more), each with a newline at its end."""
        for name, value in lines.items():
            self.files[f"{folder}/{name}"] = f"{value}\n".encode()

    def write(self, root: str) -> None:
        """Writes it all below an existing folder."""
        texts = {path: link_text(path, target) for path, target in self.links.items()} | self.pointers
        folders = self.folders.union(*(map(os.path.dirname, paths) for paths in (self.files, texts, self.pipes)))
        made = {""}
        for folder in sorted(folders):
            _make(root, folder, made)
        for path, data in self.files.items():
            file = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
            try:
                os.write(file, data)
            finally:
                os.close(file)
        for path, text in texts.items():
            os.symlink(text, f"{root}/{path}")
        for path in self.pipes:
            os.mkfifo(f"{root}/{path}", _MODE)


def number_line(number: int) -> bytes:
    """A file of one number."""
    return b"%d\n" % number


def link_text(path: str, target: str) -> str:
    """What a link of sysfs holds: up to the folder that holds both, then down to the target, by its name always.

    The kernel goes up past the target when the link lies below it (`../../../0000:05:00.0`), so that the last part is
    a name. (Source: fs/kernfs/symlink.c, kernfs_get_target_path.)
    """
    at = path.split("/")[:-1]
    to = target.split("/")
    shared = 0
    while shared < min(len(at), len(to) - 1) and at[shared] == to[shared]:
        shared += 1
    return "/".join([".."] * (len(at) - shared) + to[shared:])


def _make(root: str, folder: str, made: set[str]) -> None:
    if folder not in made:
        _make(root, os.path.dirname(folder), made)
        os.mkdir(f"{root}/{folder}")
        made.add(folder)
