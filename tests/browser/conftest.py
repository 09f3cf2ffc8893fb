"""A browser for the session, and a server for each page to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from browser.chromium import Browser, program
from needs import require
from unit.serve import views

from rocmwatch.model import View
from rocmwatch.serve.web import WebServer

Serve = Callable[[View], str]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require("chromium", None if program() else "there is no chromium")
    with closing(Browser(tmp_path_factory.mktemp("browser"))) as browser:
        yield browser


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a view on loopback; what is returned is its address."""
    with ExitStack() as stack:

        def start(view: View) -> str:
            server = WebServer("127.0.0.1", 0, lambda: view, lambda: views.NOW)
            server.start()
            stack.callback(server.stop)
            return f"http://127.0.0.1:{server.port}/"

        yield start


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    return tmp_path
