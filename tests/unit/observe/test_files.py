"""Reading many numbers at once: each file once, whatever fails between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocmwatch.observe.files import Faults, Folder, Gone, Numbers, errno_name
from rocmwatch.observe.wire import MEMORY

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A folder of four numbers."""
    for value, name in enumerate(NAMES, 1):
        (tmp_path / name).write_text(f"{value}000\n")
    made = Folder(str(tmp_path), "", forgiving=True, absent={95})
    yield made
    made.close()


def numbers(folder: Folder, scale: float = 1) -> Numbers:
    faults = Faults(MEMORY)
    pinned = [folder.pin(name, name, faults) for name in NAMES]
    return Numbers(folder, [file._replace(scale=scale) for file in pinned if file], NAMES)


def closed(files: Numbers, *names: str) -> None:
    """Lets the reads of some files fail: a descriptor that is only for writing gives EBADF."""
    for name in names:
        descriptor = files._descriptors[NAMES.index(name)]
        replacement = os.open("/dev/null", os.O_WRONLY)
        os.dup2(replacement, descriptor)
        os.close(replacement)


@pytest.mark.parametrize("failing", [(), ("a",), ("d",), ("b", "c"), ("a", "c"), NAMES])
def test_what_fails_is_none_and_the_rest_is_read(folder: Folder, failing: tuple[str, ...]) -> None:
    files, faults = numbers(folder), Faults(MEMORY)
    closed(files, *failing)
    values: list[object] = ["as it was"] * 4
    files.read_into(values, faults)

    assert [None if name in failing else 1000 * at for at, name in enumerate(NAMES, 1)] == values
    assert [(MEMORY, name, "EBADF", f"/{name}") for name in failing] == faults.found


def test_each_file_is_read_once_though_some_fail(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails may have taken the firmware two seconds, and a line in the kernel's log."""
    files = numbers(folder)
    closed(files, "b", "d")
    read: list[int] = []
    pread: Callable[[int, int, int], bytes] = os.pread

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        read.append(descriptor)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counting)
    files.read_into([None] * 4, Faults(MEMORY))

    assert files._descriptors == read


def test_what_the_card_has_not_stays_as_it_was(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    files, faults = numbers(folder), Faults(MEMORY)

    def refuse(descriptor: int, size: int, offset: int) -> bytes:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "pread", refuse)
    values: list[object] = ["from gpu_metrics"] * 4
    files.read_into(values, faults)

    assert (["from gpu_metrics"] * 4, []) == (values, faults.found)


def test_a_number_is_divided_exactly(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("41045000\n")
    values: list[object] = [None] * 4
    numbers(folder, scale=1e-6).read_into(values, Faults(MEMORY))

    assert 41.045 == values[0]


@pytest.mark.parametrize("name", ["ENODEV", "ENXIO", "ESHUTDOWN"])
def test_a_device_that_is_gone_ends_the_reading_unless_it_is_forgiven(folder: Folder, name: str) -> None:
    import errno

    error = OSError(getattr(errno, name), "gone")
    faults = Faults(MEMORY)
    assert folder.failed(error, "a", "/a", faults)
    assert [(MEMORY, "a", name, "/a")] == faults.found

    folder.forgiving = False
    with pytest.raises(Gone):
        folder.failed(error, "a", "/a", faults)


def test_closing_leaves_no_descriptor_open(folder: Folder) -> None:
    before = len(os.listdir("/proc/self/fd"))
    numbers(folder)
    folder.close()
    folder.close()

    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("number", "name"), [(5, "EIO"), (19, "ENODEV"), (133, "EHWPOISON"), (4321, "E4321"), (None, "E0"), (0, "E0")]
)
def test_errors_have_their_symbolic_names(number: int | None, name: str) -> None:
    assert name == errno_name(number)
