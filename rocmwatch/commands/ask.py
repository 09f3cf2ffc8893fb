"""Asking the daemon, over its HTTP."""

from __future__ import annotations

import http.client
import json
from typing import Any

from rocmwatch.errors import DaemonUnreachable

TIMEOUT_SECONDS = 3.0


def daemon_address(config_path: str) -> tuple[str, int]:
    """Where the daemon of this host listens: what its configuration says.

    Raises:
        ConfigError: When that is not readable as one.
    """
    from rocmwatch.observe.config_files import load

    listen = load(config_path).exporter.listen
    return listen.host if listen.host not in {"", "0.0.0.0", "::"} else "localhost", listen.port  # noqa: S104


def ask(address: tuple[str, int], path: str) -> bytes:
    """What the daemon answers to GET `path`.

    Raises:
        DaemonUnreachable: When nobody answers there, or not with 200.
    """
    host, port = address
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        hint = "is it running? systemctl status rocmwatch; --config names another configuration"
        raise DaemonUnreachable(f"no daemon at http://{host}:{port} ({error}): {hint}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise DaemonUnreachable(
            f"http://{host}:{port}{path} answered {response.status}: {body[:200].decode(errors='replace')}"
        )
    return body


def ask_json(address: tuple[str, int], path: str) -> dict[str, Any]:
    """The document that the daemon answers with.

    Raises:
        DaemonUnreachable: When it cannot be had.
    """
    try:
        document = json.loads(ask(address, path))
    except ValueError as error:
        raise DaemonUnreachable(f"http://{address[0]}:{address[1]}{path} is no rocmwatch: no JSON ({error})") from error
    if not isinstance(document, dict):
        raise DaemonUnreachable(f"http://{address[0]}:{address[1]}{path} is no rocmwatch: no object")
    return document
