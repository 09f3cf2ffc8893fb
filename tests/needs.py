"""What a test needs beyond Python, and what happens where it is missing.

A test that lacks something is skipped, loudly. Where `ROCMWATCH_REQUIRE` names that thing (a comma list, or `all`: CI
does), the skip is a failure, so that a machine which lost its promtool cannot pass by testing less.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def recorded_folder() -> Path:
    """Where the recorded trees of real GPUs are, or would be."""
    return Path(os.environ.get("ROCMWATCH_RECORDED") or REPOSITORY.parent / "shared" / "recorded")


def _missing_fuse() -> str | None:
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    if os.geteuid() != 0:
        return "only root may mount"
    return _missing_program("fusermount3")


def _missing_program(*names: str) -> str | None:
    lost = [name for name in names if shutil.which(name) is None]
    return f"not installed: {', '.join(lost)}" if lost else None


def _missing_systemd() -> str | None:
    return None if os.path.isdir("/run/systemd/system") else "systemd is not running here (tests/systemd/run boots one)"


# Things that are more than a program of the same name. Each gives the reason why it is missing, or None.
CHECKS: dict[str, Callable[[], str | None]] = {
    "recorded": lambda: None if recorded_folder().is_dir() else f"no recorded trees at {recorded_folder()}",
    "fuse": _missing_fuse,
    "promtool": lambda: _missing_program("promtool", "prometheus"),
    "systemd": _missing_systemd,
    "linux": lambda: None if sys.platform == "linux" else "needs Linux",
    "root": lambda: None if os.geteuid() == 0 else "needs root",
}


def required(name: str) -> bool:
    """Whether a skip for want of `name` has to be a failure."""
    names = {word.strip() for word in os.environ.get("ROCMWATCH_REQUIRE", "").split(",")}
    return name in names or "all" in names


def missing(name: str) -> str | None:
    """Why `name` cannot be used here; None when it can. A name without a check of its own is a program's."""
    return CHECKS.get(name, lambda: _missing_program(name))()


def require(name: str, reason: str | None = None) -> None:
    """Go on where `name` is there; else skip the test, or fail it where `ROCMWATCH_REQUIRE` names it.

    Args:
        name: A key of `CHECKS`, or the name of a program.
        reason: Given by a test that found out for itself that `name` is missing.
    """
    why = reason or missing(name)
    if why is None:
        return
    if required(name):
        pytest.fail(f"{name} is required here (ROCMWATCH_REQUIRE): {why}", pytrace=False)
    pytest.skip(f"{name}: {why}")
