"""The mirror that fails on request, for tests marked `fuse`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from faultfs import FaultFS
from watching import node, watch

__all__ = ["node", "watch"]


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Callable[..., FaultFS]]:
    """Makes started mirrors: `mirror(tree, {path: rule})`. After the test they go, whatever hangs in them."""
    numbers = count()
    with ExitStack() as stack:

        def make(tree: Path, rules: dict[str, str] | None = None) -> FaultFS:
            return stack.enter_context(FaultFS(tree, tmp_path / f"mirror{next(numbers)}", rules))

        yield make
