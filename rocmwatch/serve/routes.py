"""Which path shows what: from a request to an answer, without a socket in sight."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qsl

from rocmwatch.model import View
from rocmwatch.serve.documents import sample_document, status_document
from rocmwatch.serve.exposition import Exposition, Format
from rocmwatch.serve.holders_document import holders_document
from rocmwatch.serve.http import Request, Response
from rocmwatch.serve.negotiation import accepts_gzip, wants_openmetrics
from rocmwatch.serve.page import Wish, render_page
from rocmwatch.serve.page_style import STYLE_HASH
from rocmwatch.serve.trends_document import parse_wish, trends_document

_TEXT = "text/plain; charset=utf-8"
_OK = "200 OK"
_UNAVAILABLE = "503 Service Unavailable"
_SAFE = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    (
        "Content-Security-Policy",
        f"default-src 'none'; style-src '{STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    ),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_MOST_WISHES = 256
_VARY = ("Vary", "Accept-Encoding")
_NOT_YET = "rocmwatch has not read the GPUs yet: ask again in a few seconds\n"

Current = Callable[[], View | None]
Clock = Callable[[], float]
Reload = Callable[[], bool]


class _Route(NamedTuple):
    methods: tuple[str, ...]
    answer: Callable[[Request], Response]


def _response(status: str, content_type: str, *body: bytes, extra: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, (("Content-Type", content_type), *_SAFE, *extra), body)


def _text(status: str, text: str, *, extra: tuple[tuple[str, str], ...] = ()) -> Response:
    return _response(status, _TEXT, text.encode(), extra=extra)


def _from_elsewhere(request: Request) -> bool:
    """Whether a browser sends this on behalf of another site; other programs send no Origin."""
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")


class Application:
    """Answers requests from what is published at the moment; knows nothing of connections."""

    def __init__(self, current: Current, now: Clock, reload: Reload | None = None) -> None:
        """An application.

        Args:
            current: What is published; None before the first tick.
            now: Unix seconds.
            reload: Reads the configuration anew and says whether it was accepted; None where that is not offered.
        """
        self._current = current
        self._now = now
        self._reload = reload
        self._reloading = threading.Lock()
        self._exposition = Exposition()
        show = ("GET", "HEAD")
        self._routes = {
            "/": _Route(show, self._page),
            "/metrics": _Route(show, self._metrics),
            "/-/healthy": _Route(show, self._healthy),
            "/-/ready": _Route(show, self._ready),
            "/-/reload": _Route(("POST",), self._do_reload),
            "/api/v1/snapshot": _Route(show, self._snapshot),
            "/api/v1/status": _Route(show, self._status),
            "/api/v1/holders": _Route(show, self._holders),
            "/api/v1/trends": _Route(show, self._trends),
        }

    def __call__(self, request: Request) -> Response:
        """The answer to a request."""
        route = self._routes.get(request.path)
        if route is None:
            return _text("404 Not Found", "there is nothing here; what there is: " + " ".join(self._routes) + "\n")
        if request.method not in route.methods:
            allowed = ", ".join(route.methods)
            return _text("405 Method Not Allowed", f"only {allowed}\n", extra=(("Allow", allowed),))
        return route.answer(request)

    def _metrics(self, request: Request) -> Response:
        view = self._current()
        if view is None:
            return _text(_UNAVAILABLE, _NOT_YET)
        form = Format.OPENMETRICS if wants_openmetrics(request.headers.get("accept", "")) else Format.TEXT
        gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        body = self._exposition.scrape(view, self._now(), form, gzip=gzip)
        coding = (("Content-Encoding", "gzip"),) if gzip else ()
        return _response(_OK, form.value, *body, extra=(("Vary", "Accept, Accept-Encoding"), *coding))

    def _page(self, request: Request) -> Response:
        asked = parse_qsl(request.query)[:_MOST_WISHES]
        wish = Wish(frozenset(value for key, value in asked if key == "open"), any(key == "still" for key, _ in asked))
        page = render_page(self._current(), self._now(), wish)
        return _response(_OK, "text/html; charset=utf-8", page.encode())

    def _healthy(self, _request: Request) -> Response:
        return _text(_OK, "rocmwatch is serving\n")

    def _ready(self, _request: Request) -> Response:
        return _text(_UNAVAILABLE, _NOT_YET) if self._current() is None else _text(_OK, "rocmwatch is ready\n")

    def _snapshot(self, _request: Request) -> Response:
        return self._document(lambda view: sample_document(view.snapshot))

    def _status(self, _request: Request) -> Response:
        return self._document(lambda view: status_document(view, self._now()))

    def _holders(self, _request: Request) -> Response:
        return self._document(holders_document)

    def _trends(self, request: Request) -> Response:
        try:
            wish = parse_wish(request.query)
        except ValueError as error:
            return _text("400 Bad Request", f"{error}\n")
        answer = self._document(lambda view: trends_document(view, wish))
        if not accepts_gzip(request.headers.get("accept-encoding", "")):
            return answer._replace(headers=(*answer.headers, _VARY))
        body = gzip.compress(b"".join(answer.body), compresslevel=1)  # it is the one large document, and mostly digits
        return answer._replace(headers=(*answer.headers, _VARY, ("Content-Encoding", "gzip")), body=(body,))

    def _document(self, make: Callable[[View], dict[str, object]]) -> Response:
        view = self._current()
        if view is None:
            return _text(_UNAVAILABLE, _NOT_YET)
        return _response(_OK, "application/json", json.dumps(make(view), allow_nan=False).encode(), b"\n")

    def _do_reload(self, request: Request) -> Response:
        if self._reload is None:
            return _text("403 Forbidden", "reload over HTTP is off: set exporter.reload: true, or send SIGHUP\n")
        if _from_elsewhere(request):
            return _text("403 Forbidden", "a page of another site may not ask for a reload\n")
        if not self._reloading.acquire(blocking=False):
            return _text(_UNAVAILABLE, "a reload is under way\n")
        try:
            accepted = self._reload()
        finally:
            self._reloading.release()
        if accepted:
            return _text(_OK, "the configuration was read and is in force\n")
        return _text(
            "500 Internal Server Error", "the configuration was refused, the last good one goes on: see the log\n"
        )
