"""Archives of other people: what is none of ours is refused, and nothing is written outside of the folder."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from rocmwatch.observe import record_unpack
from rocmwatch.observe.record_unpack import NoRecord, unpack

Member = tuple[str, bytes, str, bytes]  # name, type, what it leads to, content


def archive(tmp_path: Path, *members: Member) -> str:
    path = tmp_path / "in.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, target, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(path)


def file(name: str, data: bytes = b"1\n") -> Member:
    return name, tarfile.REGTYPE, "", data


def link(name: str, target: str) -> Member:
    return name, tarfile.SYMTYPE, target, b""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "into"
    made.mkdir()
    return made


def test_files_folders_and_links_are_unpacked(tmp_path: Path, folder: Path) -> None:
    members = (
        ("./", tarfile.DIRTYPE, "", b""),
        ("sys/empty", tarfile.DIRTYPE, "", b""),
        file("./sys/devices/gpu/vendor", b"0x1002\n"),
        link("sys/class/drm/card1", "../../devices/gpu"),
        link("proc/7/fd/9", "/dev/dri/renderD128"),
        link("proc/7/fd/10", "/dev/kfd"),
        file("manifest.json", b"{}"),
    )
    unpack(archive(tmp_path, *members), str(folder))

    assert b"0x1002\n" == (folder / "sys/class/drm/card1/vendor").read_bytes()
    assert "/dev/dri/renderD128" == os.readlink(folder / "proc/7/fd/9")
    assert (folder / "sys/empty").is_dir()


@pytest.mark.parametrize(
    "members",
    [
        (file("/etc/passwd"),),
        (file("../outside"),),
        (file("sys/../../outside"),),
        (file("sys/./a"),),
        (file("etc/passwd"),),
        (link("sys/a", "/etc"), file("sys/a/passwd")),
        (link("sys/a", "../.."),),
        (link("sys/a", "../../into"),),
        (link("proc/a", "/dev/dri/../../etc/passwd"),),
        (link("proc/a", "/dev/sda"),),
        (("sys/a", tarfile.LNKTYPE, "/etc/passwd", b""),),
        (("sys/a", tarfile.CHRTYPE, "", b""),),
        (("sys/a", tarfile.FIFOTYPE, "", b""),),
        (file("sys/a"), file("sys/a")),
    ],
)
def test_tricks_are_refused(tmp_path: Path, folder: Path, members: tuple[Member, ...]) -> None:
    with pytest.raises(NoRecord, match=r"in\.tar\.gz: no record of rocmwatch"):
        unpack(archive(tmp_path, *members), str(folder))

    assert {"in.tar.gz", "into"} == {path.name for path in tmp_path.iterdir()}


def test_a_link_within_is_not_written_through(tmp_path: Path, folder: Path) -> None:
    """Links are made last: the file has its folder by then, and the link has no place any more."""
    with pytest.raises(FileExistsError):
        unpack(archive(tmp_path, link("sys/a", "b"), file("sys/a/c"), file("sys/b/d")), str(folder))

    assert not (folder / "sys/b/c").exists()


@pytest.mark.parametrize("data", [b"", b"nothing", gzip.compress(b"nothing" * 200)])
def test_what_is_no_archive_is_refused(tmp_path: Path, folder: Path, data: bytes) -> None:
    path = tmp_path / "in.tar.gz"
    path.write_bytes(data)

    with pytest.raises(NoRecord):
        unpack(str(path), str(folder))


def test_a_cut_archive_is_refused(tmp_path: Path, folder: Path) -> None:
    path = archive(tmp_path, *(file(f"sys/{number}", os.urandom(600)) for number in range(50)))
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: len(whole) // 2])

    with pytest.raises(NoRecord, match="whole"):
        unpack(path, str(folder))


def test_a_bomb_is_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_unpack, "LARGEST_BYTES", 1 << 20)
    path = archive(tmp_path, file("sys/a", bytes(1 << 20)), file("sys/b", bytes(1 << 20)))

    with pytest.raises(NoRecord, match="too large"):
        unpack(path, str(folder))
    assert not (folder / "sys/b").exists()
