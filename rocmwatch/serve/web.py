"""The listener: binds an address, serves on threads of its own, stops when told."""

from __future__ import annotations

import errno
import socket
import threading

from rocmwatch.errors import RocmwatchError
from rocmwatch.serve.http import Server
from rocmwatch.serve.routes import Application, Clock, Current, Reload
from rocmwatch.serve.wording import printable

_BACKLOG = 512  # what arrives between two looks; beyond it, a client waits a second to try again
_ADVICE = {
    errno.EADDRINUSE: "the port is in use, perhaps by another rocmwatch: end that, or set exporter.listen to another",
    errno.EACCES: "not permitted: set exporter.listen to a port above 1023",
    errno.EADDRNOTAVAIL: "no interface of this host has that address: set exporter.listen to one that it has",
}
_OTHERWISE = "check exporter.listen"


def _address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; an empty host means every address, IPv6 included."""
    everywhere = host in {"", "::"}
    if everywhere and socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _type, _proto, _name, address = found[0]
    return socket.create_server(address[:2], family=family, backlog=_BACKLOG)


class WebServer:
    """Serves what is published over HTTP."""

    def __init__(self, host: str, port: int, current: Current, now: Clock, reload: Reload | None = None) -> None:
        """A server that does not listen yet.

        Args:
            host: An address or a name; empty for every address of the host.
            port: 0 takes a free one.
            current: What is published; None before the first tick. Called for each request.
            now: Unix seconds.
            reload: What `POST /-/reload` calls: True when the configuration was accepted. None refuses it.
        """
        self._host = host
        self._port = port
        self._application = Application(current, now, reload)
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens on (the one asked for, before `start`)."""
        return self._port

    def start(self) -> None:
        """Bind and serve.

        Raises:
            RocmwatchError: The address cannot be bound.
        """
        try:
            listener = _listen(self._host, self._port)
        except (OSError, ValueError) as error:  # ValueError: no name could look like this
            known = _ADVICE.get(error.errno or 0) if isinstance(error, OSError) else None
            advice = known or f"{getattr(error, 'strerror', None) or error}: {_OTHERWISE}"
            where = printable(_address_text(self._host, self._port))
            raise RocmwatchError(f"cannot listen on {where}: {advice}") from error
        self._port = listener.getsockname()[1]
        self._server = Server(listener, self._application)
        self._server.prepare()
        self._thread = threading.Thread(target=self._server.serve, name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the listener and every connection; answers that are being sent are cut off."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join(2)
            self._server = self._thread = None
