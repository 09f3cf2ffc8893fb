from __future__ import annotations

import pytest

from rocmwatch.kernel.uevent import Wedged, parse_wedged

PATH = b"/devices/pci0000:00/0000:00:01.1/0000:05:00.0/drm/card12"


def message(*pairs: bytes, path: bytes = PATH, action: bytes = b"change") -> bytes:
    return b"\0".join((action + b"@" + path, b"ACTION=" + action, b"DEVPATH=" + path, *pairs)) + b"\0"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"none", "none"),
        (b"rebind", "rebind"),
        (b"rebind,bus-reset", "rebind"),
        (b"bus-reset,rebind", "rebind"),
        (b"vendor-specific", "vendor-specific"),
        (b"unknown", "unknown"),
        (b"something new", "unknown"),
        (b"", "unknown"),
    ],
)
def test_the_least_drastic_way_back_is_named(said: bytes, expected: str) -> None:
    found = parse_wedged(message(b"SUBSYSTEM=drm", b"WEDGED=" + said, b"PID=4242", b"TASK=python3", b"SEQNUM=7"))

    assert found == Wedged("card12", expected)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"libudev\0\xfe\xed\xca\xfe",
        message(b"SUBSYSTEM=drm", b"HOTPLUG=1"),
        message(b"SUBSYSTEM=usb", b"WEDGED=none"),
        message(b"SUBSYSTEM=drm", b"WEDGED=none", path=b"/devices/x/drm/renderD128"),
        message(b"SUBSYSTEM=drm", b"WEDGED=none", action=b"add"),
        message(b"SUBSYSTEM=drm", b"TASK=WEDGED=none"),
        b"change@\xff\0SUBSYSTEM=drm\0WEDGED=none\0",
    ],
)
def test_whatever_else_the_kernel_says_is_no_gpu_that_hung(raw: bytes) -> None:
    assert parse_wedged(raw) is None
