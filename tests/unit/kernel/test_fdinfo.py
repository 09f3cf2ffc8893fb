from __future__ import annotations

from pathlib import Path

import pytest

from rocmwatch.kernel.fdinfo import Client, parse_fdinfo

KIB = 1 << 10
MIB = 1 << 20


def fdinfo(*lines: str) -> bytes:
    return "".join(
        f"{line}\n" for line in ("pos:\t0", "flags:\t02100002", "mnt_id:\t26", "ino:\t1099", *lines)
    ).encode()


def test_a_client_of_a_middle_aged_kernel() -> None:
    raw = fdinfo(
        "drm-driver:\tamdgpu",
        "drm-client-id:\t42",
        "drm-pdev:\t0000:C3:00.0",
        "drm-memory-vram:\t1024 KiB",
        "drm-memory-gtt: \t12 KiB",
        "amd-evicted-vram:\t64 KiB",
        "amd-requested-vram:\t2048 KiB",
    )

    expected = Client("0000:c3:00.0", "drm-client-id 42", 1 * MIB, 12 * KIB, 64 * KIB, 2 * MIB)
    assert expected == parse_fdinfo(raw)


def test_what_is_resident_comes_before_its_old_name() -> None:
    raw = fdinfo("drm-pdev:\t0000:05:00.0", "drm-client-id:\t1", "drm-memory-vram:\t8 KiB", "drm-resident-vram:\t3 MiB")

    assert parse_fdinfo(raw) == Client("0000:05:00.0", "drm-client-id 1", 3 * MIB, None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("4096", 4096), ("7 KiB", 7 * KIB), ("7 kB", 7 * KIB), ("2 GiB", 2 << 30)]
)
def test_a_size_has_any_unit_or_none(text: str, expected: int) -> None:
    client = parse_fdinfo(fdinfo("drm-pdev:\t0000:05:00.0", "drm-client-id:\t1", f"drm-resident-vram:\t{text}"))

    assert client is not None
    assert expected == client.vram_bytes


@pytest.mark.parametrize(
    "text", ["", "-4 KiB", "4 furlongs", "1e3 KiB", "9999999999 GiB", "12KiB", "0x10 KiB", "٣ KiB"]
)
def test_a_size_that_makes_no_sense_is_not_known(text: str) -> None:
    client = parse_fdinfo(fdinfo("drm-pdev:\t0000:05:00.0", "drm-client-id:\t1", f"drm-memory-vram:\t{text}"))

    assert client is not None
    assert client.vram_bytes is None


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("drm-driver:\ti915", "drm-pdev:\t0000:00:02.0", "drm-client-id:\t3"),
        ("drm-driver:\tamdgpu", "drm-client-id:\t3"),
        ("drm-driver:\tamdgpu", "drm-pdev:\tnot an address", "drm-client-id:\t3"),
    ],
)
def test_a_descriptor_of_anything_else_is_no_client(lines: tuple[str, ...]) -> None:
    assert parse_fdinfo(fdinfo(*lines)) is None


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("5.15", "pasid 32770"),
        ("6.1", "drm-client-id 2917"),
        ("6.5", "drm-client-id 2917"),
        ("6.12", "drm-client-id 42"),
        ("7.3", "drm-client-id 42"),
    ],
)
def test_every_kernel_says_the_same(recorded: Path, name: str, client: str) -> None:
    raw = (recorded / f"synthetic/fdinfo/amdgpu_linux-{name}.txt").read_bytes()

    found = parse_fdinfo(raw)

    assert found is not None
    assert (found.pci, found.client, found.vram_bytes, found.gtt_bytes) == ("0000:05:00.0", client, 1 << 30, 2 * MIB)
    assert (found.evicted_bytes, found.requested_bytes) == ((None, None) if name in ("5.15", "6.1") else (0, 1 << 30))


@pytest.mark.recorded
def test_a_real_one_is_understood(recorded: Path) -> None:
    raw = (recorded / "snippets/fdinfo/amdgpu-6.4..6.7-client.txt").read_bytes()

    assert parse_fdinfo(raw) == Client("0000:83:00.0", "drm-client-id 1203108", 76 * KIB, 44 * KIB, 0, 76 * KIB)
