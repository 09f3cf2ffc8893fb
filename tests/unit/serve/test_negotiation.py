"""Accept and Accept-Encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.serve.negotiation import accepts_gzip, wants_openmetrics

OM = "application/openmetrics-text"
PROMETHEUS_2_42 = f"{OM};version=1.0.0,{OM};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = (
    f"{OM};version=1.0.0;escaping=allow-utf-8;q=0.6,{OM};version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        (BROWSER, False),
        ("text/plain", False),
        (PROMETHEUS_2_42, True),
        (PROMETHEUS_3, True),
        (OM, True),
        (f"{OM}; version=1.0.0; charset=utf-8", True),
        (f'{OM};version="1.0.0"', True),
        (OM.upper(), True),
        (f"{OM};version=0.0.1", False),
        (f"{OM};version=2.0.0", False),
        (f"{OM};q=0", False),
        (f"{OM};q=0.0", False),
        (f"{OM};q=0.4, text/plain;q=0.6", False),
        (f"text/plain;q=0.4, {OM};q=0.6", True),
        (f"text/plain, {OM}", True),
        (f"{OM};q=nan", False),
        (f"{OM};q=2", False),
        (f"{OM};q=", False),
        (";,;q=1,,", False),
    ],
)
def test_openmetrics_is_for_who_asks_for_it(accept, openmetrics):
    assert openmetrics is wants_openmetrics(accept)


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("GZip", True),
        ("x-gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip ; q=0.001", True),
        ("*", True),
        ("*;q=0", False),
        ("*, gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("br, zstd", False),
        ("gzipped", False),
        ("gzip;q=lots", False),
    ],
)
def test_gzip_is_for_who_takes_it(accept_encoding, gzip):
    assert gzip is accepts_gzip(accept_encoding)


@given(st.text(alphabet='gzipaplicton/-text*;=q,. \t0123"\x00é'))
def test_no_header_is_an_error(header):
    assert wants_openmetrics(header) in {True, False}
    assert accepts_gzip(header) in {True, False}
