"""Whatever a tree was and is to be: what lies on the disk afterwards is the second one, and nothing else."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.simulate.shown import ShownTree
from rocmwatch.simulate.tree import Tree, link_text

SCRATCH = ".next"
PATHS = [f"{folder}/{name}" for folder in ("a", "a/b", "a/b/c", "d/e") for name in ("x", "y", "z")]
KINDS: tuple[Callable[[Tree, str, bytes], None], ...] = (
    lambda tree, path, text: tree.files.__setitem__(path, text),
    lambda tree, path, text: tree.files.__setitem__(path, text * 40),
    lambda tree, path, text: tree.links.__setitem__(path, f"a/{len(text)}"),
    lambda tree, path, text: tree.pointers.__setitem__(path, f"/dev/{len(text)}"),
    lambda tree, path, _: tree.pipes.add(path),
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree = Tree(folders={"d"})
    for path in draw(st.sets(st.sampled_from(PATHS))):
        draw(st.sampled_from(KINDS))(tree, path, draw(st.binary(max_size=20)))
        if draw(st.booleans()):
            tree.renewed.add(path)
    return tree


def on_disk(root: str) -> dict[str, object]:
    """What there is below a folder."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(mode):
                found[key] = os.readlink(path)
            elif stat.S_ISFIFO(mode):
                found[key] = "a pipe"
            elif not stat.S_ISDIR(mode):
                with open(path, "rb") as file:
                    found[key] = file.read()
            elif not os.listdir(path):
                found[key] = "an empty folder"
    return found


def expected(tree: Tree) -> dict[str, object]:
    found: dict[str, object] = {
        **tree.files,
        **{path: link_text(path, target) for path, target in tree.links.items()},
        **tree.pointers,
        **dict.fromkeys(tree.pipes, "a pipe"),
    }
    if not any(path.startswith("d/") for path in found):
        found["d"] = "an empty folder"
    return found


@given(st.lists(trees(), min_size=2, max_size=4))
def test_the_disk_follows(several: list[Tree]) -> None:
    with tempfile.TemporaryDirectory() as root, closing(ShownTree(root, SCRATCH)) as shown:
        shown.write(several[0], list(several[0].files)[::2])
        assert expected(several[0]) == on_disk(root)
        for tree in several[1:]:
            shown.show(tree)
            assert expected(tree) == on_disk(root)
