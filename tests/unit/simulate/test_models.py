"""The models are what they say they are, and as those that were recorded."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rocmwatch.simulate import KERNELS, MODELS, SimulatedNode

MIB = 1 << 20


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_possible(name: str) -> None:
    model = MODELS[name]

    assert model.name == name
    assert len(model.pci) == len(set(model.pci))
    assert list(model.pci) == sorted(model.pci)
    assert 0 == model.xcc_count % model.partition_count
    assert 0 == len(model.pci) % model.dies_per_package
    assert model.pool == ("gtt" if model.gtt_total_bytes > 2 * model.vram_total_bytes and not model.board else "vram")
    low, high = model.power_range_watts
    assert not model.power_has_cap or low <= model.power_cap_watts <= high
    assert bool(model.partitioning) == (model.xcc_count > 1)
    assert len({name for name, _ in (*model.attributes, *model.forbidden)}) == len(model.attributes) + len(
        model.forbidden
    )


@pytest.mark.parametrize(
    ("name", "mebibytes", "device", "target"),
    [
        ("mi210", 65520, "0x740f", 90010),
        ("mi250x", 65520, "0x7408", 90010),
        ("mi300x", 196592, "0x74a1", 90402),
        ("mi325x", 262128, "0x74a5", 90402),
        ("mi355x", 294896, "0x75a3", 90500),
        ("rx7900xtx", 24560, "0x744c", 110000),
        ("strix-halo", 512, "0x1586", 110501),
    ],
)
def test_a_product_s_size_and_ids_are_in_its_files(
    tmp_path: Path, name: str, mebibytes: int, device: str, target: int
) -> None:
    with SimulatedNode(str(tmp_path), name, 1) as node:
        folder = tmp_path / node.places[0].device
    properties = "".join(
        path.read_text() for path in (tmp_path / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    )

    assert f"{mebibytes * MIB}\n" == (folder / "mem_info_vram_total").read_text()
    assert f"{device}\n" == (folder / "device").read_text()
    assert {"0", str(target)} == set(re.findall(r"^gfx_target_version (\d+)$", properties, re.MULTILINE))


def test_the_carve_out_of_a_strix_halo_is_nearly_full_and_models_live_beside_it(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "strix-halo", 1) as node:
        node.step(60)
        folder = tmp_path / node.places[0].device
    size = {name: int((folder / f"mem_info_{name}").read_text()) for name in ("vram_total", "vram_used", "gtt_used")}

    assert size["vram_used"] > 0.95 * size["vram_total"]
    assert size["gtt_used"] > 90 << 30


@pytest.mark.parametrize(
    ("name", "compute", "memory", "nodes"),
    [("mi300x-nps4", "CPX", "NPS4", 8), ("mi325x-dpx", "DPX", "NPS1", 2), ("mi355x", "SPX", "NPS1", 1)],
)
def test_a_partitioned_model_has_a_node_for_each_partition(
    tmp_path: Path, name: str, compute: str, memory: str, nodes: int
) -> None:
    with SimulatedNode(str(tmp_path), name, 1) as node:
        folder = tmp_path / node.places[0].device
    topology = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    texts = [path.read_text() for path in topology.glob("*/properties")]

    assert (f"{compute}\n", f"{memory}\n") == (
        (folder / "current_compute_partition").read_text(),
        (folder / "current_memory_partition").read_text(),
    )
    assert nodes == sum("vendor_id 4098\n" in text for text in texts)


def test_blocks_that_count_errors_start_at_none(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi355x", 1) as node:
        ras = tmp_path / node.places[0].device / "ras"
    counts = {path.name.removesuffix("_err_count"): path.read_text() for path in ras.glob("*_err_count")}

    assert {"umc", "gfx", "sdma", "xgmi_wafl", "mpio", "ih"} < set(counts)
    assert {"ue: 0\nce: 0\n", "ue: 0\nce: 0\nde: 0\n"} == set(counts.values())


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("model", "kernel", "theirs"),
    [
        ("rx7900xtx", "6.12", "lact/rx7900xtx/card0/device/hwmon"),
        ("strix-halo", "6.12", "lact/strixpoint/card1/device/hwmon"),
        ("phoenix", "6.8", "lact/phoenix/card1/device/hwmon"),
    ],
)
def test_a_consumer_s_hwmon_has_the_files_that_were_recorded(
    tmp_path: Path, recorded: Path, model: str, kernel: str, theirs: str
) -> None:
    with SimulatedNode(str(tmp_path), model, 1, kernel=kernel) as node:
        ours = _files(tmp_path / node.places[0].hwmon)
    (folder,) = (recorded / theirs).iterdir()

    expected = _files(folder)
    assert expected == ours


def _files(folder: Path) -> set[str]:
    """Those of the driver's; `uevent` was not kept everywhere."""
    return {name for name in os.listdir(folder) if "_" in name or name in {"name", "pwm1"}}


@pytest.mark.recorded
def test_a_bank_of_rocm_s_driver_has_the_files_that_were_recorded(tmp_path: Path, recorded: Path) -> None:
    theirs = recorded / "k8s-device-plugin/topology-parsing-mi308/topology/nodes"
    with SimulatedNode(str(tmp_path), "mi300x-cpx", 1, kernel="dkms"):
        pass
    ours = tmp_path / "sys/class/kfd/kfd/topology/nodes"

    expected = {"properties", "used_memory"}
    assert expected == set(os.listdir(theirs / "2/mem_banks/0"))
    assert expected == set(os.listdir(ours / "2/mem_banks/0"))
    shapes = [re.sub(rb"[0-9]+", b"0", (nodes / "2/mem_banks/0/used_memory").read_bytes()) for nodes in (theirs, ours)]
    assert shapes[0] == shapes[1]


def test_rocm_s_drivers_are_told_by_their_version() -> None:
    versions = {name: kernel.driver_version for name, kernel in KERNELS.items() if kernel.driver_version}

    assert {"dkms-6.4": "6.12.12", "dkms": "6.14.14"} == versions
