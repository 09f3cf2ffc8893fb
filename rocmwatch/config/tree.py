"""Several documents laid over each other, with the place where each value was written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rocmwatch.config.document import Assignment, Document, Path


class Place(NamedTuple):
    """Where something is written; sorts in the order of reading.

    Attributes:
        order: The file's position among the files.
        file: Its name.
        line: Counted from 1.
    """

    order: int
    file: str
    line: int


class Tree(NamedTuple):
    """Several documents as one.

    Attributes:
        values: Nested mappings and lists of texts.
        places: Where each of them was written last.
    """

    values: dict[str, Any]
    places: dict[Path, Place]

    def place(self, path: Path) -> Place:
        """Where the path is written, or the nearest thing that holds it."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]


def merge(documents: Iterable[tuple[int, str, Document]]) -> Tree:
    """Lays documents (position, file name, document) over each other: mappings merge, words and lists replace."""
    tree = Tree({}, {})
    for order, file, document in documents:
        tree.places.setdefault((), Place(order, file, 1))
        for assignment in document.assignments:
            if _assign(tree.values, assignment):
                tree.places[assignment.path] = Place(order, file, assignment.line)
    return tree


def _assign(values: dict[str, Any], assignment: Assignment) -> bool:
    """Sets one value; returns whether it is the one that counts now."""
    *parents, last = assignment.path
    holder: Any = values
    for step in parents:
        holder = holder[step]
    if isinstance(holder, list):
        holder.append(_fresh(assignment.value))
        return True
    known = holder.get(last)
    if isinstance(known, dict) and (assignment.value is None or isinstance(assignment.value, dict)):
        return False  # a section that is opened once more, or left empty
    holder[last] = _fresh(assignment.value)
    return True


def _fresh(value: Any) -> Any:
    return type(value)() if isinstance(value, (dict, list)) else value
