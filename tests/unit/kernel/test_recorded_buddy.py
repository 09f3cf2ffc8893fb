import pytest

from rocmwatch.kernel.buddy import parse_buddy

pytestmark = pytest.mark.recorded

GIB = 1 << 30


def tables(recorded, state):
    folder = recorded / "synthetic" / "amdgpu_vram_mm"
    files = sorted(folder.glob(f"{state}.F[1-4]_*.txt"))
    return {file.name.split(".")[1].split("_")[0]: parse_buddy(file.read_bytes()) for file in files}


@pytest.mark.parametrize(("state", "forms"), [("healthy", "F1 F2 F3 F4"), ("fragmented", "F1 F3 F4")])
def test_one_state_in_every_kernel_s_words(recorded, state, forms):
    found = tables(recorded, state)
    assert forms.split() == sorted(found)
    first = found["F1"]
    for form, table in found.items():
        assert form == table.format
        assert (first.free_blocks, first.free_bytes, first.total_bytes, first.chunk_bytes) == (
            table.free_blocks,
            table.free_bytes,
            table.total_bytes,
            table.chunk_bytes,
        )
        assert (3 * GIB if form in ("F3", "F4") else None) == table.clear_free_bytes
        assert (form == "F4") is (table.used_blocks is not None)


@pytest.mark.parametrize(("state", "free_mib"), [("healthy", 112866), ("fragmented", 19984)])
def test_the_blocks_come_to_what_the_head_says(recorded, state, free_mib):
    table = tables(recorded, state)["F4"]
    assert free_mib == table.free_bytes >> 20
    assert table.total_bytes >> 20 == 196592
    assert max(table.free_blocks) == 25


def test_used_and_free_blocks_come_to_the_whole(recorded):
    table = tables(recorded, "fragmented")["F4"]
    used = sum(count * table.chunk_bytes << order for order, count in table.used_blocks.items())
    assert table.total_bytes >= table.free_bytes + used


def test_the_old_allocator_s_ranges(recorded):
    file = recorded / "synthetic" / "amdgpu_vram_mm" / "healthy.F0_linux-5.15_drm_mm.txt"
    table = parse_buddy(file.read_bytes())
    assert (table.format, table.chunk_bytes) == ("F0", 4096)
    assert (table.total_bytes, table.free_bytes) == (4192256 * 4096, 4191744 * 4096)
    assert table.free_blocks[9] == 1  # the first free range; the long one begins at a multiple of 4 MiB
    assert not any(count for order, count in table.free_blocks.items() if order < 9)


def test_quoted_parts_of_real_tables(recorded):
    files = sorted((recorded / "snippets" / "amdgpu-buddy").glob("*.txt"))
    assert len(files) == 5
    for file in files:
        raw = file.read_bytes()
        table = parse_buddy(raw)
        has_head = b"chunk_size" in raw
        assert ("F3" if has_head else "F2") == table.format, file
        assert list(table.free_blocks) == [5, 4, 3, 2, 1], file
        assert (16368 << 20 if has_head else None) == table.total_bytes, file
        if not has_head:  # the numbers in a commit's message do not come to each other
            continue
        printed = [int(line.split(b"free:")[1].split()[0]) for line in raw.splitlines() if b"MiB, blocks" in line]
        counted = [count << order + 12 >> 20 for order, count in table.free_blocks.items()]
        assert printed == counted[: len(printed)], file
