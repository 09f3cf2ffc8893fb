"""The tree on the disk, brought from one moment to the next with as few writes as it takes.

What goes comes first, then what is new, then what changes: who is told that the node has changed finds it changed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rocmwatch.simulate.live_file import GRACE_SECONDS, LiveFile, replace_file
from rocmwatch.simulate.tree import Tree, link_text

_MODE = 0o644
_TOLD_LAST = "/generation_id"  # the compute driver counts after it has changed


class ShownTree:
    """A tree below a folder."""

    def __init__(self, root: str, scratch: str) -> None:
        """Writes nothing yet.

        Args:
            root: The folder.
            scratch: The name of a file in it that nobody looks at.
        """
        self._root = root
        self._scratch = f"{root}/{scratch}"
        self._tree = Tree()
        self._open: dict[str, LiveFile] = {}

    def write(self, tree: Tree, moving: Iterable[str]) -> None:
        """Writes all of it into an empty folder.

        Args:
            tree: What.
            moving: Files that will change often.
        """
        tree.write(self._root)
        self._tree = tree
        self._open = {path: LiveFile(f"{self._root}/{path}", tree.files[path]) for path in moving if path in tree.files}

    def show(self, tree: Tree) -> None:
        """Changes what is there into this."""
        before, self._tree = self._tree, tree
        old, new = _kinds(before), _kinds(tree)
        if old != new or before.folders != tree.folders:
            others = {path for path, kind in new.items() if kind != old.get(path)}
            replaced = {path for path in others if {old.get(path), new[path]} == {"file", "pipe"}}
            self._remove(before, tree, [path for path in old if path not in new or path in others - replaced])
            self._add(tree, others, before)
        self._relink(before, tree)
        self._change(before.files, tree)

    def close(self) -> None:
        """Lets go of the files."""
        for file in self._open.values():
            file.close()
        self._open = {}

    def _remove(self, before: Tree, tree: Tree, paths: list[str]) -> None:
        for path in paths:
            file = self._open.pop(path, None)
            if file is not None:
                file.write(b"")  # whoever has it open is not to read the last value for ever
                file.close()
            with self._answered(path, b"", before), contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._root}/{path}")
        kept = {"", *tree.folders}
        folders = before.folders.union(map(os.path.dirname, paths)) - kept
        while folders:
            folders = {os.path.dirname(folder) for folder in folders if self._is_removed(folder)} - kept

    def _is_removed(self, folder: str) -> bool:
        try:
            os.rmdir(f"{self._root}/{folder}")
        except OSError:  # not empty
            return False
        return True

    def _add(self, tree: Tree, paths: set[str], before: Tree) -> None:
        for folder in tree.folders - before.folders:
            os.makedirs(f"{self._root}/{folder}", exist_ok=True)
        for path in sorted(paths):
            os.makedirs(f"{self._root}/{os.path.dirname(path)}", exist_ok=True)
            if path in tree.pipes:
                self._hang(path)
            elif path in tree.files:
                with self._answered(path, tree.files[path], before):
                    replace_file(f"{self._root}/{path}", tree.files[path], self._scratch)
            else:
                os.symlink(_text_of_link(tree, path), f"{self._root}/{path}")

    def _hang(self, path: str) -> None:
        """From now on opening it does not return; who has it open keeps what was in it."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()
        os.mkfifo(self._scratch, _MODE)
        os.replace(self._scratch, f"{self._root}/{path}")

    @contextmanager
    def _answered(self, path: str, text: bytes, before: Tree) -> Iterator[None]:
        """Lets those go on who wait for a file while its name is taken from the FIFO, and any that come meanwhile."""
        if path not in before.pipes:
            yield
            return
        pipe = os.open(f"{self._root}/{path}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(pipe, text)
            yield
        finally:
            os.close(pipe)

    def _relink(self, before: Tree, tree: Tree) -> None:
        for old, new in ((before.links, tree.links), (before.pointers, tree.pointers)):
            if old is not new and old != new:
                for path, target in new.items():
                    if old.get(path, target) != target:
                        os.unlink(f"{self._root}/{path}")
                        os.symlink(_text_of_link(tree, path), f"{self._root}/{path}")

    def _change(self, before: Mapping[str, bytes], tree: Tree) -> None:
        changed = {path: text for path, text in tree.files.items() if before.get(path, text) != text}
        live = {}
        for path, text in changed.items():
            if path in tree.renewed or not self._can_open(path, before[path]):
                replace_file(f"{self._root}/{path}", text, self._scratch)
            else:
                live[path] = text
        if [path for path, text in live.items() if self._open[path].make_room(text)]:
            time.sleep(GRACE_SECONDS)
        for path in sorted(live, key=_is_told_last):
            self._open[path].write(live[path])

    def _can_open(self, path: str, text: bytes) -> bool:
        """Opens a file that changes for the first time; false when somebody has taken it away."""
        if path not in self._open:
            try:
                self._open[path] = LiveFile(f"{self._root}/{path}", text)
            except FileNotFoundError:
                return False
        return True


def _is_told_last(path: str) -> bool:
    return path.endswith(_TOLD_LAST)


def _text_of_link(tree: Tree, path: str) -> str:
    return link_text(path, tree.links[path]) if path in tree.links else tree.pointers[path]


def _kinds(tree: Tree) -> dict[str, str]:
    """What stands at each path."""
    return {
        **dict.fromkeys(tree.files, "file"),
        **dict.fromkeys(tree.links, "link"),
        **dict.fromkeys(tree.pointers, "pointer"),
        **dict.fromkeys(tree.pipes, "pipe"),
    }
