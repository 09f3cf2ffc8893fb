"""A GPU keeps its number for the boot, whatever becomes of it and of the daemon."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rocmwatch.observe.ordinals import Ordinals, boot_id

A, B, C = "0000:05:00.0", "0000:27:00.0", "0000:c3:00.0"


def test_numbers_follow_the_order_of_the_addresses_at_first_sight() -> None:
    ordinals = Ordinals()
    ordinals.add([C, A])

    assert (0, 1) == (ordinals[A], ordinals[C])


def test_one_that_comes_later_gets_the_next_number_and_moves_nobody() -> None:
    ordinals = Ordinals()
    ordinals.add([A, C])
    ordinals.add([B])
    ordinals.add([A, B, C])

    assert (0, 2, 1) == (ordinals[A], ordinals[B], ordinals[C])


def test_numbers_are_kept_from_one_start_of_the_daemon_to_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "gpus.json")
    first = Ordinals(path, "boot 1")
    first.add([B, C])
    again = Ordinals(path, "boot 1")
    again.add([A, B, C])

    assert (2, 0, 1) == (again[A], again[B], again[C])


def test_numbers_of_another_boot_do_not_count(tmp_path: Path) -> None:
    path = str(tmp_path / "gpus.json")
    Ordinals(path, "boot 1").add([B])
    again = Ordinals(path, "boot 2")
    again.add([A, B])

    assert (0, 1) == (again[A], again[B])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no json",
        "[]",
        "[" * 10_000,
        "{}",
        "null",
        '{"boot_id": "boot"}',
        '{"boot_id": "boot", "gpus": []}',
        '{"boot_id": "boot", "gpus": 3}',
        '{"boot_id": "boot", "gpus": {"0000:27:00.0": "1"}}',
        '{"boot_id": "boot", "gpus": {"0000:27:00.0": null}}',
        '{"boot_id": "boot", "gpus": {"0000:27:00.0": -1}}',
        '{"boot_id": "boot", "gpus": {"0000:27:00.0": 1e999}}',
        '{"boot_id": "boot", "gpus": {"0000:27:00.0": NaN}}',
        '{"boot_id": "boot", "gpus": {"0000:05:00.0": 1, "0000:27:00.0": 1}}',
        '{"boot_id": "boot", "gpus": {"0000:05:00.0": 18446744073709551616}}',
        "[" * 100,
    ],
)
def test_a_file_that_helps_nobody_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gpus.json"
    path.write_text(content)
    ordinals = Ordinals(str(path), "boot")
    ordinals.add([B, A])

    assert (0, 1) == (ordinals[A], ordinals[B])
    assert {A: 0, B: 1} == json.loads(path.read_text())["gpus"]


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    ordinals = Ordinals(str(tmp_path / "none" / "gpus.json"), "boot")
    ordinals.add([B])
    ordinals.add([A])

    assert (1, 0) == (ordinals[A], ordinals[B])


def test_the_boot_has_a_name_of_the_kernel_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "proc/sys/kernel/random"
    os.makedirs(folder)
    (folder / "boot_id").write_bytes(b"4f1b7c1e-8a7e-4c35-9c53-1de5d1b5a0aa\n")

    assert "4f1b7c1e-8a7e-4c35-9c53-1de5d1b5a0aa" == boot_id(str(tmp_path))
    assert "" == boot_id(str(tmp_path / "elsewhere"))
