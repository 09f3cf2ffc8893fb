"""Every way in which amdsmi cannot be loaded, and which wrapper goes with which library."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rocm import Make, Pair, Rocm, build, wrapper_folder

from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
Look = Callable[[], str]


@pytest.fixture
def tree(node: Node) -> SimulatedNode:
    return node("mi300x")


@pytest.fixture
def why(tree: SimulatedNode, pair: Callable[..., Pair]) -> Look:
    """Why amdsmi is not used; empty when it is. The GPU is read in any case."""

    def look() -> str:
        snapshot = pair(tree.root).tick()
        assert [reading.sample and reading.sample.vram_used_bytes for reading in snapshot.gpus] != [None]
        assert len(snapshot.notes) <= 1
        note = snapshot.notes[0] if snapshot.notes else ""
        assert "\n" not in note
        return note.removeprefix("amdsmi is not used, the driver's files are read instead: ")

    return look


def wrapper_of(installed: Rocm) -> Path:
    """The folder of ROCm's own wrapper."""
    return installed.path / "share" / "amd_smi" / "amdsmi"


def rename(installed: Rocm, name: str) -> None:
    """Gives the library's file a name with numbers, and the plain name as a link to it, as packages do."""
    installed.library.rename(installed.library.with_name(name))
    installed.library.symlink_to(name)


# Which belong together


def test_the_wrapper_from_pypi_goes_with_the_library_of_its_release_of_rocm(
    tree: SimulatedNode, rocm: Make, why: Look
) -> None:
    rocm(tree.root, release="7.0.2")
    assert why() == ""


def test_the_release_is_in_the_librarys_name_as_well(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    installed = rocm(tree.root)
    (installed.path / ".info" / "version").unlink()
    rename(installed, "libamd_smi.so.26.0.70002")
    assert why() == ""


def test_the_name_counts_for_more_than_the_folder_around_it(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    rename(rocm(tree.root, release="7.0.2"), "libamd_smi.so.25.5.60403")
    assert why().endswith(" of ROCm is 6.4.3")


@pytest.mark.parametrize("release", ["7.0.1", "7.1.0", "6.4.3", "26.0.2", "10.0.0"])
def test_it_does_not_go_with_that_of_another_one(tree: SimulatedNode, rocm: Make, why: Look, release: str) -> None:
    installed = rocm(tree.root, release=release)
    installed.listen()
    assert why() == (
        "wrapper and library are not of the same version: "
        f"{wrapper_folder()} is 7.0.2, {installed.library} of ROCm is {release}"
    )
    assert [] == installed.calls()  # it was not even loaded


def test_where_nobody_knows_the_release_it_is_not_used(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    (rocm(tree.root).path / ".info" / "version").unlink()
    assert why().endswith(" of ROCm is unknown")


def test_rocms_own_wrapper_comes_first(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    rocm(tree.root, release="9.9.9", own_wrapper="26.0.2+39b7f94")  # PyPI's would not go with that
    assert why() == ""


def test_rocms_own_wrapper_of_another_version_is_not_used(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    installed = rocm(tree.root, own_wrapper="26.0.1+39b7f94")
    assert why() == (
        "wrapper and library are not of the same version: "
        f"{wrapper_of(installed)} is 26.0.1, {installed.library} is 26.0.2"
    )


@pytest.mark.parametrize(("own", "reason"), [("24.7.1+39b7f94", ""), ("24.7.2+39b7f94", "24.7.1")])
def test_an_old_library_tells_its_version_after_its_start(
    tree: SimulatedNode, rocm: Make, why: Look, own: str, reason: str
) -> None:
    rocm(tree.root, own_wrapper=own).tell(root=tree.root, version="late 24 7 1")
    assert why().endswith(reason)
    assert bool(reason) == bool(why())


def test_a_wrapper_that_loads_another_library_is_not_used(
    tree: SimulatedNode, rocm: Make, why: Look, tmp_path: Path
) -> None:
    installed = rocm(tree.root, own_wrapper="26.0.2")
    other = tmp_path / "libamd_smi.so"
    shutil.copy(installed.library, other)
    with (wrapper_of(installed) / "__init__.py").open("a") as file:
        file.write(f"\nimport ctypes\nctypes.CDLL({str(other)!r})\n")
    assert why() == (f"the wrapper in {wrapper_of(installed).parent} loads another library than {installed.library}")


# What is missing


def test_there_is_no_library(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    rocm(tree.root).library.unlink()
    assert why().startswith("the library cannot be loaded: libamd_smi.so: ")


def test_there_is_no_wrapper(tree: SimulatedNode, rocm: Make, why: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = rocm(tree.root)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("-packages")])
    assert why() == (f"there is no Python package amdsmi in {installed.path}/share/amd_smi nor among this program's")


def test_the_wrapper_does_not_find_the_library(
    tree: SimulatedNode, rocm: Make, why: Look, capfd: pytest.CaptureFixture[str]
) -> None:
    installed = rocm(tree.root)
    installed.library.rename(installed.library.with_name("libamd_smi.so.26"))
    assert why() == f"the import of {wrapper_folder()} failed: KeyError: 'libamd_smi.so'"
    assert ("", "") == capfd.readouterr()  # it prints two lines


@pytest.mark.parametrize("name", ["amdsmi_get_cpu_handles", "amdsmi_get_power_info", "amdsmi_topo_get_link_type"])
def test_the_library_lacks_a_function(tree: SimulatedNode, rocm: Make, why: Look, tmp_path: Path, name: str) -> None:
    installed = rocm(tree.root)
    (tmp_path / "build").mkdir()
    shutil.copy(build(tmp_path / "build", leave_out=[name]), installed.library)
    reason = why()
    assert reason.startswith(f"the import of {wrapper_folder()} failed: AttributeError: {installed.library}: ")
    assert reason.endswith(f"undefined symbol: {name}")


@pytest.mark.parametrize("name", ["amdsmi_init", "amdsmi_get_lib_version"])
def test_the_library_is_none(tree: SimulatedNode, rocm: Make, why: Look, tmp_path: Path, name: str) -> None:
    installed = rocm(tree.root, own_wrapper="26.0.2")
    (tmp_path / "build").mkdir()
    shutil.copy(build(tmp_path / "build", leave_out=[name]), installed.library)
    assert why() == f"the library has no {name}"


def test_the_library_is_no_library(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    installed = rocm(tree.root)
    installed.library.write_text("INPUT(libamd_smi.so.26)\n")
    assert why().startswith(f"the library cannot be loaded: {installed.library}: ")


# What is broken


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise KeyError('ROCM_PATH')", "KeyError: 'ROCM_PATH'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("1 +", "SyntaxError: invalid syntax (__init__.py, line 1)"),
        ("import numpy_of_another_world", "ModuleNotFoundError: No module named 'numpy_of_another_world'"),
    ],
)
def test_the_import_fails(tree: SimulatedNode, rocm: Make, why: Look, code: str, told: str) -> None:
    installed = rocm(tree.root, own_wrapper="26.0.2")
    (wrapper_of(installed) / "__init__.py").write_text(code)
    assert why() == f"the import of {wrapper_of(installed)} failed: {told}"


def test_an_import_that_says_very_much_is_cut(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    installed = rocm(tree.root, own_wrapper="26.0.2")
    (wrapper_of(installed) / "__init__.py").write_text("raise RuntimeError('x' * 100_000)")
    assert len(why()) == 300


def test_the_wrapper_does_not_say_its_version(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    installed = rocm(tree.root, own_wrapper="unknown")
    assert why() == f"the wrapper {wrapper_of(installed)} does not say its version, so it cannot be compared"


def test_the_wrapper_lacks_the_functions_that_are_asked(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    installed = rocm(tree.root, own_wrapper="26.0.2")
    (wrapper_of(installed) / "__init__.py").write_text("")
    assert why().startswith("it does not list the GPUs: AttributeError: ")


# What it refuses


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (34, " (it finds no amdgpu driver)"),
        (32, " (it finds no /sys/class/kfd, or another process holds its lock)"),
        (10, " (it lacks a permission: the render and video groups are missing, or a device is not allowed)"),
        (40, ""),
    ],
)
def test_it_does_not_start(tree: SimulatedNode, rocm: Make, why: Look, status: int, meaning: str) -> None:
    rocm(tree.root).tell(root=tree.root, init=status)
    assert why() == f"it does not start: error {status}{meaning}"


def test_it_does_not_list_the_gpus(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    rocm(tree.root).tell(root=tree.root, socket_handles=33)
    assert why().startswith("it does not list the GPUs: AmdSmiLibraryException: ")


def test_its_addresses_are_none(tree: SimulatedNode, rocm: Make, why: Look) -> None:
    rocm(tree.root).tell(root=tree.root, gpu_bdf_id="zero")
    assert why() == "it sees no GPU"


def test_it_sees_other_gpus(tree: SimulatedNode, node: Node, rocm: Make, why: Look) -> None:
    rocm(tree.root).tell(root=tree.root, gpu_bdf_id="garbage")
    assert why() == "it answers nothing about these GPUs"
