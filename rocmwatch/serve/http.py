"""cheroot's HTTP parser and workers, behind the lobby.

This is the one module that knows cheroot. A worker gets a connection whose request head has arrived, parses it, asks
the application, and leaves the answer in the outbox of the connection; sending never blocks it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import structlog
from cheroot import server as cheroot
from cheroot.makefile import MakeFile
from cheroot.workers.threadpool import ThreadPool

from rocmwatch.serve import lobby

_WORKERS = 4
_MOST_BODY_BYTES = 64 * 1024
_LOG_FROM = 30  # logging.WARNING: clients that hang up are no news
_log = structlog.get_logger(__name__)
# Two of them are then no number, and refused.
cheroot.comma_separated_headers.append(b"Content-Length")  # type: ignore[attr-defined]


class Request(NamedTuple):
    """What the application sees of a request. Header names are in lower case; the query is as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: str = ""


class Response(NamedTuple):
    """An answer; the body in pieces, which may be shared between answers."""

    status: str
    headers: tuple[tuple[str, str], ...]
    body: tuple[bytes, ...]


Application = Callable[[Request], Response]


class _Outbox:
    """Stands where cheroot writes to: keeps the answer until the kernel has taken it."""

    bytes_written = 0

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pieces: list[bytes | memoryview] = []

    def write(self, piece: bytes) -> int:
        if piece:
            self._pieces.append(piece)
        return len(piece)

    def send_rest(self) -> bool:
        while self._pieces:
            try:
                sent = self._sock.sendmsg(self._pieces[:64])
            except BlockingIOError:
                return False
            while sent:
                piece = self._pieces[0]
                if sent < len(piece):
                    self._pieces[0] = memoryview(piece)[sent:]
                    break
                sent -= len(piece)
                del self._pieces[0]
        return True


def _make_file(sock: socket.socket, mode: str, size: int) -> Any:
    return MakeFile(sock, mode, size) if "r" in mode else _Outbox(sock)


class _Request(cheroot.HTTPRequest):
    """A request; one that cheroot's parser stumbles over is the client's fault, and no news."""

    def parse_request(self) -> None:
        try:
            super().parse_request()
        except OSError:
            raise  # the client is gone
        except Exception:  # noqa: BLE001  # a target like `//[`, a first header line that continues another
            self.simple_response("400 Bad Request", "Malformed Request")


class _Connection(cheroot.HTTPConnection):
    """A connection whose answers wait in its outbox."""

    RequestHandlerClass = _Request

    keep = False

    def communicate(self) -> bool:
        """Answer one request. The rest, a parting included, is the lobby's: so cheroot is told to keep it."""
        self.keep = bool(super().communicate())  # type: ignore[no-untyped-call]
        with suppress(OSError):  # the lobby meets it again, and closes
            self.send_rest()
        return True

    def send_rest(self) -> bool:
        """Send what the kernel takes; True when nothing is left."""
        outbox: _Outbox = self.wfile
        return outbox.send_rest()

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Gateway(cheroot.Gateway):
    """Between cheroot's request and the application."""

    def respond(self) -> None:
        req = self.req
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in req.inheaders.items()}
        method = req.method.decode("latin-1")
        request = Request(method, req.path.decode("latin-1"), headers, req.qs.decode("latin-1"))
        answer = self.req.server.application(request)
        req.status = answer.status.encode("latin-1")
        length = str(sum(len(piece) for piece in answer.body))
        for name, value in (*answer.headers, ("Content-Length", length)):
            req.outheaders.append((name.encode("latin-1"), value.encode("latin-1")))
        # A body is never read: nothing here takes one. Nor is a buffer with bytes of the next request given back.
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if has_body or req.conn.rfile.has_data():
            req.close_connection = True
        req.ensure_headers_sent()
        if method != "HEAD":
            for piece in answer.body:
                req.write(piece)


class Server(cheroot.HTTPServer):
    """cheroot's server with the lobby in front of its workers."""

    ConnectionClass = _Connection
    max_request_header_size = lobby.MOST_HEAD_BYTES
    max_request_body_size = _MOST_BODY_BYTES
    timeout = int(lobby.IDLE_SECONDS)  # what HTTP/1.0 clients are told
    shutdown_timeout = 1

    def __init__(self, listener: socket.socket, application: Application) -> None:
        self.application = application
        self._listener = listener
        super().__init__(listener.getsockname()[:2], _Gateway, server_name="rocmwatch")
        self.requests = ThreadPool(self, min=_WORKERS, max=_WORKERS)

    def prepare(self) -> None:
        """Start the workers behind a listener that is bound already.

        Not cheroot's own: it hides why a bind failed, and takes descriptor 3 for a socket when LISTEN_PID is set.
        """
        self._connections = lobby.Lobby(self._listener, self._hand_over)
        self.requests.start()
        self.ready = True

    def _hand_over(self, sock: socket.socket, address: tuple[str, int], known: lobby.Connection | None) -> None:
        connection = known
        if connection is None:
            connection = self.ConnectionClass(self, sock, _make_file)
            connection.remote_addr, connection.remote_port = address
        self.requests.put(connection)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:  # noqa: FBT001, FBT002
        """Into the log of the daemon."""
        if level >= _LOG_FROM:
            with suppress(Exception):  # a worker that dies of a full disk under the log takes cheroot's server with it
                _log.error("http.failed", message=msg, exc_info=traceback)
