import pytest

from rocmwatch.kernel.kfd import by_gpu, make_node

pytestmark = pytest.mark.recorded


def nodes_of(folder):
    nodes = []
    for path in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        banks = [
            ((bank / "properties").read_bytes(), read(bank / "used_memory"))
            for bank in sorted(path.glob("mem_banks/*"))
        ]
        made = make_node(
            int(path.name), read(path / "gpu_id"), read(path / "name"), (path / "properties").read_bytes(), banks
        )
        if made is not None:
            nodes.append(made)
    return nodes


def read(path):
    return path.read_bytes() if path.exists() else None


def test_eight_mi300x_in_cpx_are_63_partitions(recorded):
    nodes = nodes_of(recorded / "k8s-device-plugin/topo-mi300-cpx/topology/nodes")
    gpus = by_gpu(nodes)
    assert len(nodes) == 63  # minors ran out before the last one
    assert sorted(len(members) for members in gpus.values()) == [7, 8, 8, 8, 8, 8, 8, 8]
    assert all(pci.endswith(".0") for pci in gpus)
    assert {1} == {node.num_xcc for node in nodes}
    assert len(nodes) == len({node.render_minor for node in nodes})
    assert {None} == {node.gpu_id for node in nodes}  # the file was not recorded


def test_eight_mi308x_in_four_partitions_each(recorded):
    nodes = nodes_of(recorded / "k8s-device-plugin/topology-parsing-mi308/topology/nodes")
    gpus = by_gpu(nodes)
    assert [len(members) for members in gpus.values()] == [4] * 8
    assert next(iter(gpus)) == "0000:0a:00.0"
    assert {51539607552, 51539607552 - (16 << 20)} == {node.vram_total_bytes for node in nodes}
    assert all(0 < node.vram_used_bytes < node.vram_total_bytes for node in nodes)
    assert {"ip discovery"} == {node.name for node in nodes}
    assert len(nodes) == len({node.gpu_id for node in nodes})
    for members in gpus.values():
        assert sorted(member.node for member in members) == [member.node for member in members]


def test_a_kernel_before_domains_and_dies(recorded):
    nodes = nodes_of(recorded / "k8s-device-plugin/topology-parsing/topology/nodes")
    first = nodes[0]
    assert (first.pci, first.gpu_id, first.num_xcc) == ("0000:19:00.0", 13261, None)
    assert (first.vram_total_bytes, first.vram_used_bytes) == (17163091968, 14102528)


@pytest.mark.parametrize(
    ("card", "pci", "gtt"), [("phoenix", "0000:64:00.0", 31433977856), ("strixpoint", "0000:c1:00.0", 16441004032)]
)
def test_an_apu_s_bank_is_as_large_as_gtt(recorded, card, pci, gtt):
    (node,) = nodes_of(recorded / "lact" / card / "kfd/topology/nodes")
    assert (pci, gtt, None) == (node.pci, node.vram_total_bytes, node.vram_used_bytes)
