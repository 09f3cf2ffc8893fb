"""KFD's picture of the node."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rocmwatch.kernel.kfd import KfdNode, by_gpu, make_node, parse_properties
from rocmwatch.kernel.pool import choose_pool
from rocmwatch.simulate import MODELS, SimulatedNode

MIB = 1 << 20
KFD = "sys/class/kfd/kfd/topology/nodes"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SimulatedNode]:
    """A full node of each model, standing still."""
    nodes = {name: SimulatedNode(str(tmp_path_factory.mktemp(name)), name, len(MODELS[name].pci)) for name in MODELS}
    for node in nodes.values():
        node.create()
        node.close()
    return nodes


def _kfd_nodes(root: str) -> list[KfdNode | None]:
    """Every node of the topology, a CPU as None."""
    found = []
    for number in sorted(map(int, os.listdir(f"{root}/{KFD}"))):
        folder = Path(root, KFD, str(number))
        banks = [((bank / "properties").read_bytes(), None) for bank in sorted((folder / "mem_banks").iterdir())]
        found.append(
            make_node(
                number,
                (folder / "gpu_id").read_bytes(),
                (folder / "name").read_bytes(),
                (folder / "properties").read_bytes(),
                banks,
            )
        )
    return found


@pytest.mark.parametrize("model", list(MODELS))
def test_cpus_come_first_and_every_gpu_is_found_by_its_address(trees: dict[str, SimulatedNode], model: str) -> None:
    node = trees[model]
    nodes = _kfd_nodes(node.root)
    cpus = node.model.host.sockets

    assert [None] * cpus == nodes[:cpus]
    gpus = [found for found in nodes[cpus:] if found is not None]
    assert len(nodes) - cpus == len(gpus)
    assert [place.pci for place in node.places] == list(by_gpu(gpus))
    assert len(gpus) == len({gpu.gpu_id for gpu in gpus})
    assert all(gpu.gpu_id and 0 < gpu.gpu_id < 1 << 16 for gpu in gpus)


def test_a_whole_mi300x_is_one_node_with_eight_dies_and_all_memory(trees: dict[str, SimulatedNode]) -> None:
    node = trees["mi300x"]
    found = by_gpu(gpu for gpu in _kfd_nodes(node.root) if gpu)

    assert [1] * 8 == [len(nodes) for nodes in found.values()]
    first = found[node.places[0].pci][0]
    assert (8, 196592 * MIB, 128) == (first.num_xcc, first.vram_total_bytes, first.render_minor)


def test_eight_partitioned_mi300x_have_63_nodes_as_drm_minors_run_out(trees: dict[str, SimulatedNode]) -> None:
    node = trees["mi300x-cpx"]
    gpus = [gpu for gpu in _kfd_nodes(node.root) if gpu]

    assert [8] * 7 + [7] == [len(nodes) for nodes in by_gpu(gpus).values()]
    assert list(range(128, 191)) == [gpu.render_minor for gpu in gpus]
    assert {(1, 24574 * MIB)} == {(gpu.num_xcc, gpu.vram_total_bytes) for gpu in gpus}


def test_seven_partitioned_mi300x_lack_nothing(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x-cpx", 7) as node:
        pass

    assert 56 == sum(gpu is not None for gpu in _kfd_nodes(node.root))


def test_an_apu_offers_its_gtt_as_memory(trees: dict[str, SimulatedNode]) -> None:
    node = trees["apu"]
    gpus = [gpu for gpu in _kfd_nodes(node.root) if gpu]

    assert [node.model.gtt_total_bytes] == [gpu.vram_total_bytes for gpu in gpus]


@pytest.mark.parametrize("model", list(MODELS))
def test_the_product_sees_the_pool_that_the_model_has(trees: dict[str, SimulatedNode], model: str) -> None:
    node = trees[model]
    banks = [gpu.vram_total_bytes or 0 for gpu in _kfd_nodes(node.root) if gpu]

    expected = node.model.pool
    assert expected == choose_pool(
        vram_total_bytes=node.model.vram_total_bytes,
        gtt_total_bytes=node.model.gtt_total_bytes,
        bank_bytes=banks,
        metrics_format=node.model.gpu_metrics[0],
    )


@pytest.mark.recorded
def test_a_partitioned_node_agrees_with_one_that_was_recorded(trees: dict[str, SimulatedNode], recorded: Path) -> None:
    node = trees["mi300x-cpx"]
    theirs = recorded / "k8s-device-plugin/topo-mi300-cpx/topology/nodes"
    names = (
        "location_id",
        "domain",
        "drm_render_minor",
        "num_xcc",
        "simd_count",
        "array_count",
        "device_id",
        "vendor_id",
    )

    def picture(nodes: Path) -> list[tuple[int, ...]]:
        numbers = sorted(int(path.name) for path in nodes.iterdir())
        properties = [parse_properties((nodes / str(number) / "properties").read_bytes()) for number in numbers]
        return [tuple(values.get(name, 0) for name in names) for values in properties]

    assert picture(theirs) == picture(Path(node.root, KFD))


@pytest.mark.recorded
def test_properties_have_the_names_and_the_order_that_were_recorded(
    trees: dict[str, SimulatedNode], recorded: Path
) -> None:
    node = trees["mi300x-cpx"]
    theirs = recorded / "k8s-device-plugin/topo-mi300-cpx/topology/nodes"

    for number in ("0", "2"):
        expected = re.findall(r"^\w+", (theirs / number / "properties").read_text(), re.MULTILINE)
        assert expected == re.findall(r"^\w+", (Path(node.root, KFD, number) / "properties").read_text(), re.MULTILINE)
