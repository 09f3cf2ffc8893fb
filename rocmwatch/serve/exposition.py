"""A view as exposition text: rendered once, at the first scrape that asks for it, and kept until the next view.

What moves between two views (the ages) is a small tail that is rendered for each scrape. So that the compressed text
can be kept too, it is one gzip member whose deflate stream is flushed to a byte boundary after the kept part (RFC 1951,
3.2.4): tail and trailer are appended to it. Two members would be shorter to write, and curl and browsers refuse them.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from rocmwatch.model import View
from rocmwatch.serve.metrics import families

_LEVEL = 1  # names and labels repeat so much that 6 saves another tenth for four times the time
_RAW_DEFLATE = -zlib.MAX_WBITS
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # deflate, no name, no time, unknown system
_EOF = b"# EOF\n"


class Format(Enum):
    """The formats; the value is the Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _Families(Collector):
    """Hands families that were made elsewhere to prometheus-client."""

    def __init__(self, made: Iterable[Family]) -> None:
        self._made = made

    def collect(self) -> Iterator[Family]:
        yield from self._made


def _render(made: Iterable[Family], form: Format) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Families(made))
    if form is Format.OPENMETRICS:
        return generate_openmetrics(registry)  # type: ignore[no-untyped-call,no-any-return]
    return generate_latest(registry)


class _Head(NamedTuple):
    """The part that stays as long as its view."""

    plain: bytes
    checksum: int


class Exposition:
    """Renders views for scrapes. Threads may share it: two first scrapes render once, the second waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view: View | None = None
        self._heads: dict[Format, _Head] = {}
        self._deflated: dict[Format, bytes] = {}
        self._families: dict[tuple[Format, str], tuple[list[Sample], bytes]] = {}

    def scrape(self, view: View, now: float, form: Format, *, gzip: bool) -> tuple[bytes, ...]:
        """The text of a view at a moment.

        Args:
            view: What is published.
            now: Unix seconds: what ages are counted from.
            form: The format.
            gzip: Compressed. (The caller names the coding in its answer.)

        Returns:
            The pieces of the body in their order; the first ones are shared with other answers.
        """
        head, deflated = self._kept(view, form, gzip=gzip)
        tail = _render(families(view, now, at_scrape=True), form)
        if deflated is None:
            return head.plain, tail
        compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
        length = (len(head.plain) + len(tail)) & 0xFFFFFFFF
        trailer = struct.pack("<II", zlib.crc32(tail, head.checksum), length)
        return deflated, compressor.compress(tail) + compressor.flush() + trailer

    def _kept(self, view: View, form: Format, *, gzip: bool) -> tuple[_Head, bytes | None]:
        with self._lock:
            if view is not self._view:
                self._heads, self._deflated, self._view = {}, {}, view
            head = self._heads.get(form)
            if head is None:
                plain = self._plain(view, form)
                head = self._heads[form] = _Head(plain, zlib.crc32(plain))
            if not gzip:
                return head, None
            deflated = self._deflated.get(form)
            if deflated is None:
                compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
                deflated = _GZIP_HEAD + compressor.compress(head.plain) + compressor.flush(zlib.Z_FULL_FLUSH)
                self._deflated[form] = deflated
            return head, deflated

    def _plain(self, view: View, form: Format) -> bytes:
        """The families of a snapshot. One whose series are what they were keeps its text, and that is most of them."""
        pieces = []
        for family in families(view, 0.0, at_scrape=False):
            kept = self._families.get((form, family.name))
            if kept is None or kept[0] != family.samples:
                kept = family.samples, _render((family,), form).removesuffix(_EOF)
                self._families[form, family.name] = kept
            pieces.append(kept[1])
        return b"".join(pieces)
