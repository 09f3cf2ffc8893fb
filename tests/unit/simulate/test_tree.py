from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.simulate.tree import Tree, link_text


@pytest.mark.parametrize(
    ("path", "target", "expected"),
    [
        (
            "sys/class/drm/card1",
            "sys/devices/pci0000:00/0000:05:00.0/drm/card1",
            "../../devices/pci0000:00/0000:05:00.0/drm/card1",
        ),
        ("sys/devices/a/0000:05:00.0/driver", "sys/bus/pci/drivers/amdgpu", "../../../bus/pci/drivers/amdgpu"),
        ("sys/devices/a/0000:05:00.0/drm/card1/device", "sys/devices/a/0000:05:00.0", "../../../0000:05:00.0"),
        ("sys/kernel/debug/dri/1", "sys/kernel/debug/dri/0000:05:00.0", "0000:05:00.0"),
    ],
)
def test_a_link_goes_up_and_down_again_as_sysfs_does_it(path: str, target: str, expected: str) -> None:
    assert expected == link_text(path, target)


def test_a_tree_is_written_with_its_empty_folders_and_its_links(tmp_path: Path) -> None:
    tree = Tree()
    tree.text("sys/a/b", one="1", two="2\n3")
    tree.files["sys/raw"] = b"\x00\xff"
    tree.links["sys/link"] = "sys/a/b"
    tree.folders.add("sys/empty/inner")

    tree.write(str(tmp_path))

    assert b"1\n" == (tmp_path / "sys/link/one").read_bytes()
    assert b"2\n3\n" == (tmp_path / "sys/a/b/two").read_bytes()
    assert b"\x00\xff" == (tmp_path / "sys/raw").read_bytes()
    assert [] == os.listdir(tmp_path / "sys/empty/inner")


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    tree = Tree(files={"file": b"theirs"})

    with pytest.raises(FileExistsError):
        tree.write(str(tmp_path))
    assert b"mine" == (tmp_path / "file").read_bytes()
