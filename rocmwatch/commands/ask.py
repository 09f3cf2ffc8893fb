"""Asking the daemon, over its HTTP."""

from __future__ import annotations

import http.client
import json
from typing import Any

from rocmwatch.errors import DaemonUnreachable

TIMEOUT_SECONDS = 3.0
LARGEST_ANSWER = 16 << 20


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
        body = response.read(LARGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        hint = "is it running? systemctl status rocmwatch; --config names another configuration"
        raise DaemonUnreachable(f"no daemon at {_url(address)} ({error!s:.100}): {hint}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        said = body[:200].decode("utf-8", "replace").splitlines()
        raise DaemonUnreachable(f"{_url(address)}{path} answered {response.status}: {said[0] if said else 'nothing'}")
    return body


def ask_json(address: tuple[str, int], path: str, schema: str) -> dict[str, Any]:
    """The document of that schema that the daemon answers with.

    Raises:
        DaemonUnreachable: When it cannot be had.
    """
    try:
        document = json.loads(ask(address, path))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise DaemonUnreachable(f"what answers at {_url(address)} is no rocmwatch: {path} is no {schema}")
    return document


def _url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
