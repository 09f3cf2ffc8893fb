"""The page at `/`."""

from __future__ import annotations

import base64
import hashlib

from rocmwatch.model import View

_STYLE = "body{font:16px sans-serif}"
STYLE_HASH = "sha256-" + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def render_page(_view: View | None, _now: float) -> str:
    """The page as it is at a moment."""
    return "<!doctype html><title>rocmwatch</title>"
