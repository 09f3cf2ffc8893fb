"""Fixtures of every test: recorded trees, golden texts, and what is needed beyond Python."""

from __future__ import annotations

import difflib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import needs
import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).resolve().parent / "golden"
MARKERS = ("recorded", "fuse", "promtool", "systemd")  # a marker says what a test needs; its check is in needs.py

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "local")

# In a shell's background, or under nohup, these are ignored, and programs would inherit that. A handler they do not.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what the code says now")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only tests with golden texts run when these are rewritten."""
    if config.getoption("--update-golden"):
        chosen = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in MARKERS:
        if item.get_closest_marker(name) is not None:
            needs.require(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """A skip of a test whose marker is required is a failure, whoever skipped it and why."""
    report = yield
    lost = [name for name in MARKERS if item.get_closest_marker(name) is not None and needs.required(name)]
    if report.skipped and lost and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and ROCMWATCH_REQUIRE names {', '.join(lost)}: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def require() -> Callable[..., None]:
    """`require("promtool")`: skips where it is missing, fails where ROCMWATCH_REQUIRE names it."""
    return needs.require


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded trees of real GPUs (ROCMWATCH_RECORDED, else ../shared/recorded)."""
    needs.require("recorded")
    return needs.recorded_folder()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: text has to equal tests/golden/NAME. `--update-golden` writes it instead."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist: `make golden` writes it", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if expected != text:
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="", n=2
            )
            pytest.fail("\n".join([*lines, "(`make golden` accepts this; look at the diff)"]), pytrace=False)

    return check
