from __future__ import annotations

import pytest

from rocmwatch.kernel.dmem import parse_dmem


def test_each_region_of_a_gpu_is_found() -> None:
    raw = b"drm/0000:05:00.0/vram 206141652992\ndrm/0000:C3:00.0/vram 4096\ndrm/0000:05:00.0/stolen 7\n"

    assert parse_dmem(raw) == {"0000:05:00.0": 206141652992, "0000:c3:00.0": 4096}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"drm/0000:05:00.0/vram max\n",
        b"drm/0000:05:00.0/vram -1\n",
        b"drm/x/vram 1\n",
        b"drm/0000:05:00.0/vram\n",
        b"drm/0000:05:00.0/vram 99999999999999999999\n",
        b"xe/0000:05:00.0/vram 1\n",
    ],
)
def test_anything_else_is_left_out(raw: bytes) -> None:
    assert parse_dmem(raw) == {}
