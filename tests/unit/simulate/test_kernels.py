"""Which kernel can drive what, and which files it then shows in which form."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.kernel.buddy import parse_buddy
from rocmwatch.kernel.gpu_metrics import parse_gpu_metrics
from rocmwatch.simulate import KERNELS, MODELS, SimulatedNode
from rocmwatch.simulate.layout import table_path

PAIRS = [(model, kernel) for model in MODELS for kernel in MODELS[model].revisions]
MAINLINE = [name for name, kernel in KERNELS.items() if kernel.driver_version is None]
PARTITION_FILES = {"current_compute_partition", "available_compute_partition", "current_memory_partition"}


def _made(root: Path, model: str, kernel: str, gpus: int = 1) -> SimulatedNode:
    with SimulatedNode(str(root), model, gpus, kernel=kernel) as node:
        node.step(60)
    return node


def _names(node: SimulatedNode, index: int = 0) -> set[str]:
    return set(os.listdir(Path(node.root, node.places[index].device)))


def _hwmon(node: SimulatedNode, index: int = 0) -> dict[str, str]:
    folder = Path(node.root, node.places[index].hwmon)
    return {path.name: path.read_text().strip() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("model", "kernel"), PAIRS)
def test_metrics_and_table_are_of_the_kernel_s_revision(tmp_path: Path, model: str, kernel: str) -> None:
    node = _made(tmp_path, model, kernel)
    place = node.places[0]
    metrics = parse_gpu_metrics((tmp_path / place.device / "gpu_metrics").read_bytes())
    table = parse_buddy((tmp_path / table_path(node.model, place)).read_bytes())

    assert MODELS[model].revisions[kernel] == (metrics.format_revision, metrics.content_revision)
    assert (KERNELS[kernel].buddy_format, node.model.vram_total_bytes) == (table.format, table.total_bytes)
    assert node.model.vram_total_bytes - node.states[0].vram_used_bytes == table.free_bytes
    assert f"{KERNELS[kernel].release}\n" == (tmp_path / "proc/sys/kernel/osrelease").read_text()


@pytest.mark.parametrize(
    ("model", "kernel", "choices"),
    [
        ("mi300x", "5.15", "6.5, 6.8, 6.12, 7.3, dkms-6.4, dkms"),
        ("mi300x", "6.1", "6.5, 6.8, 6.12, 7.3, dkms-6.4, dkms"),
        ("mi325x", "6.5", "6.8, 6.12, 7.3, dkms-6.4, dkms"),
        ("mi355x", "6.12", "7.3, dkms"),
        ("mi355x", "dkms-6.4", "7.3, dkms"),
        ("rx7900xtx", "5.15", "6.1, 6.5, 6.8, 6.12, 7.3, dkms-6.4, dkms"),
        ("strix-halo", "5.15", "6.12, 7.3"),
    ],
)
def test_a_kernel_that_does_not_know_the_gpu_is_refused(tmp_path: Path, model: str, kernel: str, choices: str) -> None:
    expected = f"Linux {kernel} cannot drive model {model}: choose one of {choices}"
    with pytest.raises(ValueError, match="cannot drive") as caught:
        SimulatedNode(str(tmp_path), model, 1, kernel=kernel)

    assert expected == str(caught.value)


def test_a_kernel_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no kernel 2\.6: choose one of 5\.15, 6\.1, 6\.5, 6\.8, 6\.12, 7\.3, dkms"):
        SimulatedNode(str(tmp_path), "mi210", 1, kernel="2.6")


def test_a_model_runs_on_a_kernel_that_it_can_have() -> None:
    assert [] == [name for name, model in MODELS.items() if model.kernel.name not in model.revisions]
    assert [] == [pair for pair in PAIRS if pair[1] not in KERNELS]


@pytest.mark.parametrize("kernel", MAINLINE)
def test_debugfs_names_its_folders_as_the_kernel_does(tmp_path: Path, kernel: str) -> None:
    node = _made(tmp_path, "mi210", kernel)
    dri = tmp_path / "sys/kernel/debug/dri"
    pci = node.places[0].pci

    numbered = {"0", "1", "128"}
    if kernel in {"5.15", "6.1", "6.5"}:
        assert numbered == set(os.listdir(dri))
        assert [] == [name for name in numbered if (dri / name).is_symlink()]
        assert not (dri / "128/amdgpu_vram_mm").exists()  # the driver's own files are in the card's folder
    else:
        assert numbered | {pci, "0000:fe:00.0"} == set(os.listdir(dri))
        assert pci == os.readlink(dri / "128")
    assert (dri / "1/amdgpu_vram_mm").stat().st_size > 0
    assert (dri / "1/amdgpu_gpu_recover").is_file()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("6.5", {"power1_average"}),
        ("6.8", {"power1_input"}),
        ("6.12", {"power1_input"}),
        ("7.3", {"power1_input"}),
        ("dkms", {"power1_input"}),
    ],
)
def test_an_mi300x_shows_its_power_as_the_kernel_does(tmp_path: Path, kernel: str, expected: set[str]) -> None:
    assert expected == {"power1_average", "power1_input"} & set(_hwmon(_made(tmp_path, "mi300x", kernel)))


@pytest.mark.parametrize(
    ("kernel", "extra"),
    [
        ("6.5", set()),
        ("6.12", set()),
        ("7.3", {"available_memory_partition", "xcp"}),
        ("dkms-6.4", {"available_memory_partition"}),
        ("dkms", {"available_memory_partition", "xcp"}),
    ],
)
def test_partitions_are_shown_as_the_kernel_does(tmp_path: Path, kernel: str, extra: set[str]) -> None:
    names = _names(_made(tmp_path, "mi300x", kernel))

    assert PARTITION_FILES | extra == names & (PARTITION_FILES | {"available_memory_partition", "xcp"})


@pytest.mark.parametrize(
    ("kernel", "present", "absent"),
    [
        ("5.15", {"serial_number"}, {"board_info", "fru_id", "manufacturer"}),
        ("6.8", {"serial_number", "board_info", "fru_id", "manufacturer"}, set()),
    ],
)
def test_what_the_board_says_of_itself_grew(tmp_path: Path, kernel: str, present: set[str], absent: set[str]) -> None:
    names = _names(_made(tmp_path, "mi210", kernel))

    assert present <= names
    assert set() == names & absent


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [("6.8", "ue: 0\nce: 0\n"), ("6.12", "ue: 0\nce: 0\nde: 0\n"), ("dkms", "ue: 0\nce: 0\nde: 0\n")],
)
def test_deferred_errors_are_counted_by_newer_drivers(tmp_path: Path, kernel: str, expected: str) -> None:
    node = _made(tmp_path, "mi300x", kernel)
    ras = tmp_path / node.places[0].device / "ras"

    assert expected == (ras / "umc_err_count").read_text()
    assert "ue: 0\nce: 0\n" == (ras / "gfx_err_count").read_text()


@pytest.mark.parametrize("kernel", KERNELS)
def test_only_rocm_s_driver_has_a_version_and_tells_what_a_bank_holds(tmp_path: Path, kernel: str) -> None:
    node = _made(tmp_path, "mi210", kernel)
    version = tmp_path / "sys/module/amdgpu/version"
    used = tmp_path / "sys/class/kfd/kfd/topology/nodes/2/mem_banks/0/used_memory"

    expected = KERNELS[kernel].driver_version
    assert expected == (version.read_text().strip() if version.exists() else None)
    held = node.states[0].vram_used_bytes if expected else None
    assert held == (int(used.read_text()) if used.exists() else None)


def test_each_partition_has_its_share_of_what_is_used(tmp_path: Path) -> None:
    node = _made(tmp_path, "mi300x-cpx", "dkms")
    banks = sorted((tmp_path / "sys/class/kfd/kfd/topology/nodes").glob("*/mem_banks/0/used_memory"))

    expected = [node.states[0].vram_used_bytes // 8] * 8
    assert expected == [int(bank.read_text()) for bank in banks]


@pytest.mark.parametrize(("kernel", "expected"), [("6.1", False), ("6.5", True), ("7.3", True)])
def test_the_number_of_dies_is_told_by_newer_drivers(tmp_path: Path, kernel: str, expected: bool) -> None:
    _made(tmp_path, "mi210", kernel)
    properties = (tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties").read_text()

    assert expected == ("num_xcc 1\n" in properties)
    assert expected == ("num_xcc" in properties)


@pytest.mark.parametrize(("kernel", "expected"), [("6.12", 1), ("7.3", 8)])
def test_the_newest_driver_tells_partitions_apart_by_their_ids(tmp_path: Path, kernel: str, expected: int) -> None:
    _made(tmp_path, "mi300x-cpx", kernel)
    nodes = (tmp_path / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    ids = {line for node in nodes for line in node.read_text().splitlines() if line.startswith("unique_id ")}

    assert expected == len(ids)


@pytest.mark.parametrize(
    ("model", "kernel", "expected"),
    [
        ("mi300x", "6.12", "S: 132Mhz *\n0: 500Mhz\n1: 2100Mhz\n"),
        ("mi300x", "7.3", "S: 132Mhz *\n1: 500Mhz\n2: 2100Mhz\n"),
        ("rx7900xtx", "6.12", "0: 500Mhz \n1: 31Mhz *\n2: 2482Mhz \n"),
        ("rx7900xtx", "7.3", "S: 31Mhz *\n1: 500Mhz\n2: 2482Mhz\n"),
    ],
)
def test_a_clock_that_sleeps_is_listed_as_the_kernel_does(
    tmp_path: Path, model: str, kernel: str, expected: str
) -> None:
    with SimulatedNode(str(tmp_path), model, 1, kernel=kernel) as node:
        assert expected == (tmp_path / node.places[0].device / "pp_dpm_sclk").read_text()


@pytest.mark.parametrize(("kernel", "shown"), [("5.15", "0"), ("6.1", "0"), ("6.5", "0"), ("6.8", None), ("7.3", None)])
def test_a_second_die_leaves_its_power_to_its_sister(tmp_path: Path, kernel: str, shown: str | None) -> None:
    node = _made(tmp_path, "mi250x", kernel, gpus=2)
    first, second = (_hwmon(node, index) for index in (0, 1))
    metrics = [
        parse_gpu_metrics((tmp_path / place.device / "gpu_metrics").read_bytes()).fields for place in node.places
    ]

    assert str(int(node.states[0].power_watts) * 1_000_000) == first["power1_average"]
    assert shown == second.get("power1_average")
    assert ("560000000", "0") == (first["power1_cap"], second["power1_cap"])
    assert int(node.states[0].power_watts) == metrics[0]["average_socket_power"]
    assert (0, 0) == (metrics[1]["average_socket_power"], metrics[1]["energy_accumulator"])
    assert metrics[1]["temperature_hotspot"] == round(node.states[1].temperatures_celsius["junction"])
