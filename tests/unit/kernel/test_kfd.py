import pytest

from rocmwatch.kernel.kfd import KfdNode, by_gpu, make_node, parse_properties

GPU = b"cpu_cores_count 0\nsimd_count 304\nlocation_id 49920\ndomain 0\ndrm_render_minor 129\nnum_xcc 8\n"
CPU = b"cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\n"
VRAM = b"heap_type 1\nsize_in_bytes 51539607552\nflags 0\nwidth 8192\nmem_clk_max 1300\n"


def node(number: int, location: int, domain: int = 0) -> KfdNode:
    made = make_node(
        number, b"%d\n" % (4000 + number), None, b"simd_count 8\nlocation_id %d\ndomain %d\n" % (location, domain), ()
    )
    assert made is not None
    return made


def test_a_node_is_made_of_its_files():
    made = make_node(2, b"24248\n", b"ip discovery\n", GPU, [(VRAM, b"2907979776\n")])
    assert (
        KfdNode(
            node=2,
            gpu_id=24248,
            name="ip discovery",
            pci="0000:c3:00.0",
            render_minor=129,
            num_xcc=8,
            vram_total_bytes=51539607552,
            vram_used_bytes=2907979776,
        )
        == made
    )


@pytest.mark.parametrize(
    ("gpu_id", "properties"), [(b"0\n", CPU), (b"0\n", b""), (None, CPU), (None, b""), (b"0\n", GPU)]
)
def test_a_cpu_is_no_node(gpu_id, properties):
    assert make_node(0, gpu_id, b"\n", properties, ()) is None


def test_a_node_that_may_not_be_read_is_there_without_a_place():
    made = make_node(3, b"777\n", None, b"", ())
    assert KfdNode(3, 777, None, None, None, None, None, None) == made
    assert by_gpu([made]) == {}


@pytest.mark.parametrize("gpu_id", [None, b"", b"what\n", b"-4\n"])
def test_a_node_without_a_number_is_told_by_its_compute_units(gpu_id):
    made = make_node(1, gpu_id, None, GPU, ())
    assert made is not None
    assert made.gpu_id is None


@pytest.mark.parametrize(
    ("banks", "total", "used"),
    [
        pytest.param([], None, None, id="no bank"),
        pytest.param([(b"heap_type 0\nsize_in_bytes 64\n", b"3\n")], None, None, id="the host's memory"),
        pytest.param([(b"heap_type 1\nsize_in_bytes 64\n", None)], 64, None, id="mainline counts no use"),
        pytest.param([(b"heap_type 2\nsize_in_bytes 64\n", b"3\n")], 64, 3, id="private"),
        pytest.param(
            [(b"heap_type 1\nsize_in_bytes 64\n", b"3\n"), (b"heap_type 2\nsize_in_bytes 32\n", b"4\n")],
            96,
            7,
            id="both",
        ),
        pytest.param(
            [(b"heap_type 1\nsize_in_bytes 64\n", b"3\n"), (b"heap_type 2\nsize_in_bytes 32\n", None)],
            96,
            None,
            id="half",
        ),
        pytest.param([(b"heap_type 1\nsize_in_bytes x\n", b"\n")], None, None, id="broken"),
    ],
)
def test_only_vram_banks_count(banks, total, used):
    made = make_node(1, b"5\n", None, GPU, banks)
    assert made is not None
    assert (total, used) == (made.vram_total_bytes, made.vram_used_bytes)


def test_broken_lines_of_properties_are_left_out():
    assert parse_properties(b"a 1\nb 18446744073709551615\nc\nd x\ne 1 2\n\nf -1\ng 999999999999999999999\n\0\0") == {
        "a": 1,
        "b": 18446744073709551615,
    }


def test_partitions_of_a_gpu_come_together_under_function_0():
    gpus = by_gpu([node(4, 2562), node(2, 2560), node(3, 2561), node(9, 7328 * 8 + 2)])
    assert list(gpus) == ["0000:0a:00.0", "0000:e5:00.2"]
    assert [member.node for member in gpus["0000:0a:00.0"]] == [2, 3, 4]
    assert {"0000:0a:00.0"} == {member.pci for member in gpus["0000:0a:00.0"]}


def test_a_partition_whose_first_sister_is_missing_keeps_the_gpu_s_address():
    assert list(by_gpu([node(3, 2561), node(4, 2562)])) == ["0000:0a:00.0"]


def test_a_partition_that_is_left_alone_belongs_to_the_gpu_that_the_bus_has():
    gpus = by_gpu([node(4, 2562)], ["0000:0a:00.0"])

    assert ["0000:0a:00.0"] == list(gpus)


def test_virtual_functions_on_one_device_are_gpus_of_their_own():
    addresses = ["0000:0a:00.0", "0000:0a:00.1", "0000:0a:00.2"]
    gpus = by_gpu([node(2, 2560), node(3, 2561), node(4, 2562)], addresses)

    assert {pci: [number] for pci, number in zip(addresses, (2, 3, 4), strict=True)} == {
        pci: [member.node for member in members] for pci, members in gpus.items()
    }


def test_gpus_of_two_domains_do_not_mix():
    assert list(by_gpu([node(1, 2560), node(2, 2560, domain=1)])) == ["0000:0a:00.0", "0001:0a:00.0"]


@pytest.mark.parametrize(
    "properties", [b"simd_count 8\nlocation_id 0\n", b"simd_count 8\nlocation_id 65536\n", b"simd_count 8\n"]
)
def test_an_impossible_location_is_no_address(properties):
    made = make_node(1, b"5\n", None, properties, ())
    assert made is not None
    assert made.pci is None
