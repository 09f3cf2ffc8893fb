"""What a record reads, what it leaves alone, and that nothing of what it replaces is left in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from opened import Opened
from record_trees import HOST, SECRETS, contents, everything, inhabit, manifest
from watching import Watcher, of, said

from rocmwatch.observe.record import Recorder, Recording
from rocmwatch.observe.record_archive import About, Archive, build, is_scrubbed, leaks
from rocmwatch.observe.record_survey import Plan
from rocmwatch.observe.record_table import FORBIDDEN, ITEMS, parts
from rocmwatch.observe.record_unpack import unpack
from rocmwatch.simulate import MODELS, SimulatedNode
from rocmwatch.simulate.layout import FORBIDDEN_DEBUGFS

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
ABOUT = About("0", "2026-01-01T00:00:00.000Z", of_tree=True)
NEVER = (
    "pcie_bw", "xgmi_error", "pp_table", "pm_metrics", "config", "reset", "remove", "rescan", "rom", "gpu_od",
    "cu_occupancy", "environ", "maps", "mem", *FORBIDDEN_DEBUGFS,
)  # fmt: skip

KEPT = (
    "exists", "start_time", "state", "parent", "group", "session", "namespaces", "kill_pending", "has_kfd_entry",
    "has_queues", "may_look", "kfd_open", "drm_open", "kfd", "clients", "faults",
)  # fmt: skip


def recorded_from(root: str | Path) -> tuple[Plan, Recording]:
    with closing(Recorder(str(root))) as recorder:
        plan = recorder.survey()
        return plan, recorder.record(plan)


def archive_of(root: str | Path, key: bytes = b"key") -> Archive:
    return build(recorded_from(root)[1], key, ABOUT)


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[Archive], Path]:
    """Writes an archive and unpacks it again."""

    def make(archive: Archive) -> Path:
        file, folder = tmp_path / "out.tar.gz", tmp_path / "unpacked"
        file.write_bytes(archive.data)
        folder.mkdir()
        unpack(str(file), str(folder))
        return folder

    return make


# What is opened


@pytest.mark.parametrize("model", MODELS)
def test_only_what_the_plan_names_is_opened(node: Node, model: str) -> None:
    root = inhabit(node(model, gpus=min(2, len(MODELS[model].pci))).root)
    with Opened(root) as opened:
        plan, recording = recorded_from(root)
        files = opened.look()

    wanted = {f"/{one.path}" for one in plan.wanted}
    status = re.compile(r".*/power/runtime_status")  # looked at again before each file of a card
    assert [] == sorted(path for path in files if path not in wanted and not status.fullmatch(path))
    assert {Path(path).name for path in files}.isdisjoint(NEVER)
    assert not any(re.search(r"/sdma_[0-9]|/fdinfo/77$", path) for path in files)
    assert {f"/{entry.path}" for entry in recording.entries if entry.outcome == "read"} <= files.keys()
    assert any(path.endswith("/gpu_metrics") for path in files)


def test_a_file_that_asks_the_firmware_is_read_once(node: Node) -> None:
    root = node("mi300x").root
    with Opened(root) as opened:
        recorded_from(root)
        files = opened.look()

    assert {1} == {count for path, count in files.items() if path.endswith(("/gpu_metrics", "_err_count", "_input"))}


def test_the_table_names_nothing_that_is_forbidden() -> None:
    assert [] == [item.path for item in ITEMS if FORBIDDEN.fullmatch(f"sys/device/{item.path}")]


def test_braces_stand_for_each_name_and_a_cross_for_a_number() -> None:
    (first, second) = parts("a#/{x,y}_b")

    assert ("x_b", "y_b") == (first[1], second[1])
    number = first[0]
    assert isinstance(number, re.Pattern)
    assert [True, False, False] == [bool(number.fullmatch(name)) for name in ("a12", "a", "ab")]


def test_looking_around_reads_nothing_of_the_driver(node: Node) -> None:
    root = inhabit(node("mi300x-cpx", gpus=2).root)
    with Opened(root) as opened, closing(Recorder(str(root))) as recorder:
        plan = recorder.survey()
        files = opened.look()

    assert {"uevent"} == {Path(path).name for path in files}
    assert len(plan.wanted) > 200


def test_a_card_that_sleeps_is_not_woken(node: Node, unpacked: Callable[[Archive], Path], watch: Watch) -> None:
    made = node("mi300x", gpus=2)
    asleep, awake = made.places
    Path(made.root, asleep.device, "power/runtime_status").write_text("suspended\n")
    with Opened(made.root) as opened:
        _, recording = recorded_from(made.root)
        files = opened.look()

    touched = {path for path in files if asleep.pci in path and re.search(r"/hwmon/|_err_count|metrics$|_link_", path)}
    assert set() == touched
    sleeping = {entry.path for entry in recording.entries if entry.why == "asleep"}
    assert f"{asleep.device}/gpu_metrics" in sleeping
    assert not any(awake.pci in path for path in sleeping)
    snapshot = watch(unpacked(build(recording, b"key", ABOUT))).tick()
    assert ("suspended", "active") == tuple(of(snapshot, place.pci).state.value for place in (asleep, awake))


@pytest.mark.parametrize("status", ["resuming\n", "", "nonsense\n"])
def test_in_doubt_a_card_is_left_alone(node: Node, status: str) -> None:
    made = node("mi300x")
    Path(made.root, made.places[0].device, "power/runtime_status").write_text(status)
    _, recording = recorded_from(made.root)

    assert "asleep" in {entry.why for entry in recording.entries if entry.path.endswith("/gpu_metrics")}


def test_a_link_out_of_the_tree_is_not_followed(node: Node, tmp_path: Path) -> None:
    made = node("mi300x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "umc_err_count").write_text("ue: 7\n")
    ras = Path(made.root, made.places[0].device, "ras")
    for file in ras.iterdir():
        file.unlink()
    ras.rmdir()
    ras.symlink_to(elsewhere)
    used = Path(made.root, made.places[0].device, "mem_info_vram_used")
    used.unlink()
    used.symlink_to(elsewhere / "umc_err_count")
    with Opened(elsewhere) as opened:
        recorded_from(made.root)

        assert {} == opened.look()


# What is in it


@pytest.mark.parametrize("model", MODELS)
def test_an_unpacked_record_says_what_the_node_says(
    node: Node, watch: Watch, unpacked: Callable[[Archive], Path], model: str
) -> None:
    made = node(model, gpus=min(2, len(MODELS[model].pci)))
    made.step(60)
    there = watch(made.root).tick()
    here = watch(unpacked(archive_of(made.root))).tick()

    assert [reading.gpu.pci for reading in there.gpus] == [reading.gpu.pci for reading in here.gpus]
    for before, after in zip(there.gpus, here.gpus, strict=True):
        replaced = {"serial", "unique_id"}
        assert {k: v for k, v in said(before).items() if k not in replaced} == {
            k: v for k, v in said(after).items() if k not in replaced
        }
        assert (before.state, before.faults, before.free_blocks) == (after.state, after.faults, after.free_blocks)
        for name in replaced:
            old, new = getattr(before.gpu, name), getattr(after.gpu, name)
            assert old is None or (len(old) == len(new) and old != new)


def test_who_has_what_survives(node: Node, unpacked: Callable[[Archive], Path]) -> None:
    from rocmwatch.observe.process_wire import CGROUPS, PIDS, ProcessFrame, subject_of
    from rocmwatch.observe.processes import ProcessReader
    from rocmwatch.observe.wire import LIST, LOOK, Order

    root = inhabit(node("mi300x").root)
    before, after = ProcessReader(str(root)), ProcessReader(str(unpacked(archive_of(root))))

    pids = before.answer(Order(PIDS, LIST))
    assert pids == after.answer(Order(PIDS, LIST))
    assert {94242, 94243, 94244} <= set(pids[0])
    groups = []
    for pid in pids[0]:
        there, here = (ProcessFrame(*one.answer(Order(subject_of(pid), LOOK))) for one in (before, after))
        assert [getattr(there, name) for name in KEPT] == [getattr(here, name) for name in KEPT]
        groups.append((there.cgroup, here.cgroup))
    sizes = [sorted((size, name) for name, _, size in one.answer(Order(CGROUPS, LIST))[0]) for one in (before, after)]
    assert [size for size, _ in sizes[0]] == [size for size, _ in sizes[1]]
    pairs = [(old, new) for (_, old), (_, new) in zip(*sizes, strict=True)]
    assert len(pairs) >= 3
    assert set(pairs) <= set(groups), "a process and its folder agree"


def test_nothing_that_tells_whose_node_it_is_survives(node: Node, tmp_path: Path) -> None:
    made = node("mi300x-cpx", gpus=8)
    root = inhabit(made.root)
    file = tmp_path / "out.tar.gz"
    file.write_bytes(archive_of(root).data)
    text = everything(file).lower()

    secrets = [
        *SECRETS,
        "umgebung",
        "notizen",
        "buchhaltung",
        str(made.boot_id),
        *(place.serial for place in made.places),
    ]
    for place in made.places:
        secrets += [f"{place.unique_id:016x}", f"{place.unique_id:x}", str(place.unique_id)]
    assert [] == [secret for secret in secrets if secret.lower().encode() in text]
    assert [] == [
        place for place in made.places for order in ("little", "big") if place.unique_id.to_bytes(8, order) in text
    ]


def test_what_belongs_together_still_does(node: Node, unpacked: Callable[[Archive], Path]) -> None:
    made = node("mi300x", gpus=2)
    folder = unpacked(archive_of(made.root))
    for place in made.places:
        new = int((folder / place.device / "unique_id").read_text(), 16)
        properties = [file.read_text() for file in folder.glob("sys/class/kfd/kfd/topology/nodes/*/properties")]

        assert place.unique_id != new
        assert 1 == sum(f"unique_id {new}\n" in text for text in properties)
        assert f"{new:#x}\n" == (folder / place.device / "xgmi_device_id").read_text()
    hives = {re.search(r"hive_id (\d+)", text)[1] for text in properties if "hive_id" in text}  # type: ignore[index]
    assert 2 == len(hives), "one of both GPUs, and none of the CPUs"


def test_known_words_stay(node: Node, unpacked: Callable[[Archive], Path]) -> None:
    folder = unpacked(archive_of(inhabit(node("mi300x").root)))

    assert b"VLLM::EngineCor\n" == (folder / "proc/94242/comm").read_bytes()
    arguments = (folder / "proc/94242/cmdline").read_bytes().split(b"\0")
    assert [b"vllm", b"serve", b"--port", b"--dtype"] == [arguments[at] for at in (0, 1, 4, 6)]
    assert re.fullmatch(
        r"0::/kubepods\.slice/kubepods-pod[0-9a-f_]{36}\.slice/cri-containerd-[0-9a-f]{64}\.scope\n",
        (folder / "proc/94242/cgroup").read_text(),
    )
    assert re.fullmatch(r"6\.12\.48-[a-z]{4}\+\n", (folder / "proc/sys/kernel/osrelease").read_text())


def test_the_same_key_makes_the_same_archive(node: Node) -> None:
    _, recording = recorded_from(inhabit(node("mi300x").root))

    first, again, other = (build(recording, key, ABOUT).data for key in (b"1", b"1", b"2"))
    assert first == again != other


def test_a_value_that_is_left_is_found(node: Node) -> None:
    """The positive control of the search."""
    made = node("mi300x")
    _, recording = recorded_from(inhabit(made.root))
    archive = build(recording, b"key", ABOUT)
    place = made.places[0]
    device = place.device

    def with_(path: str, data: bytes) -> list[str]:
        entries = tuple(
            entry._replace(data=data, rule="binary") if entry.path == path else entry for entry in recording.entries
        )
        return leaks(archive, build(recording._replace(entries=entries), b"key", ABOUT).data)

    metrics = f"{device}/gpu_metrics"
    assert [] == leaks(archive, archive.data)
    for secret in (
        HOST.upper(),
        HOST.partition(".")[0],
        place.serial,
        str(made.boot_id),
        str(place.unique_id),
        f"{place.unique_id:X}",
    ):
        assert [metrics] == with_(metrics, b"\xff" + secret.encode() + b"\0")
    assert [metrics] == with_(metrics, place.unique_id.to_bytes(8, "little"))
    comm = "proc/94244/comm"
    assert [comm] == with_(comm, b"geheimprojekt\n")
    assert [comm] == with_(comm, b"a 51234\n")


def test_the_manifest_says_what_came_of_each_path(node: Node, tmp_path: Path) -> None:
    made = node("mi300x")
    inhabit(made.root)
    device = made.places[0].device
    Path(made.root, device, "vbios_version").unlink()
    Path(made.root, device, "pp_dpm_fclk").write_bytes(bytes(300_000))
    file = tmp_path / "out.tar.gz"
    file.write_bytes(archive_of(made.root).data)
    document = manifest(file)
    rows = {row["path"]: row for row in document["files"]}

    assert ("rocmwatch/record/1", "0", "a tree", ["0000:05:00.0"]) == tuple(
        document[name] for name in ("schema", "rocmwatch", "of", "gpus")
    )
    assert {"path": f"/{device}/vbios_version", "outcome": "absent"} == rows[f"/{device}/vbios_version"]
    assert {"outcome": "skipped", "why": "too large"}.items() <= rows[f"/{device}/pp_dpm_fclk"].items()
    assert {"outcome": "skipped", "why": "forbidden"}.items() <= rows[f"/{device}/pcie_bw"].items()
    assert {"outcome": "read", "bytes": 17, "scrubbed": True}.items() <= rows[f"/{device}/unique_id"].items()
    assert "scrubbed" not in rows[f"/{device}/mem_info_vram_total"]
    assert {row["path"][1:] for row in rows.values() if row["outcome"] == "read"} | {"manifest.json"} == {
        name
        for name, data in contents(file).items()
        if data and not re.fullmatch(rb"0000:05:00\.0|\.\./.*|/dev/.*", data)
    } | {path[1:] for path, row in rows.items() if row.get("bytes") == 0}


def test_the_list_says_what_is_scrubbed() -> None:
    assert [True, False, True, False] == [
        is_scrubbed("sys/d/unique_id", "number"),
        is_scrubbed("sys/d/mem_info_vram_used", "kernel"),
        is_scrubbed("sys/fs/cgroup/a/dmem.current", "kernel"),
        is_scrubbed("sys/fs/cgroup/dmem.capacity", "kernel"),
    ]


def test_a_node_that_changes_meanwhile_is_recorded(node: Node) -> None:
    made = node("mi300x")
    root = inhabit(made.root)
    with closing(Recorder(str(root))) as recorder:
        plan = recorder.survey()
        for file in (root / "proc/94243").rglob("*"):
            if file.is_file() and not file.is_symlink():
                file.unlink()
        made.step(30)
        Path(made.root, made.places[0].device, "product_name").unlink()
        recording = recorder.record(plan)

    outcomes = {entry.path: entry.outcome for entry in recording.entries}
    assert ("absent", "absent", "read") == tuple(
        outcomes[path] for path in ("proc/94243/stat", f"{made.places[0].device}/product_name", "proc/94242/stat")
    )
    assert () == recording.incomplete


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["lact/phoenix", "lact/rx6900xt", "procfs/vega-card0"])
def test_a_recorded_card_is_recorded(
    recorded: Path, tmp_path: Path, watch: Watch, unpacked: Callable[[Archive], Path], name: str
) -> None:
    import shutil

    source = recorded / name
    devices = sorted(source.glob("card*/device"))
    root = tmp_path / "root"
    shutil.copytree(devices[0] if devices else source, root / "sys/class/drm/card1/device", symlinks=True)
    if (source / "kfd").is_dir():
        shutil.copytree(source / "kfd", root / "sys/class/kfd/kfd", symlinks=True)
    there = watch(root).tick().gpus[0]
    here = watch(unpacked(archive_of(root))).tick().gpus[0]

    unlike = {"unique_id", "serial"}
    assert {k: v for k, v in said(there).items() if k not in unlike} == {
        k: v for k, v in said(here).items() if k not in unlike
    }
