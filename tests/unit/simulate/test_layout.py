"""The tree is laid out as the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocmwatch.kernel.drm import is_card, minor_of, parse_uevent, pci_of
from rocmwatch.simulate import MODELS, SimulatedNode
from rocmwatch.simulate.layout import FORBIDDEN_DEBUGFS


@pytest.fixture(scope="module", params=list(MODELS))
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimulatedNode:
    """A full node that stands still."""
    with SimulatedNode(str(tmp_path_factory.mktemp("node")), request.param, len(MODELS[request.param].pci)) as made:
        return made


@pytest.fixture(scope="module")
def mi300x(tmp_path_factory: pytest.TempPathFactory) -> SimulatedNode:
    with SimulatedNode(str(tmp_path_factory.mktemp("node")), "mi300x", 8) as made:
        return made


def _links(root: str) -> list[str]:
    return [
        f"{folder}/{name}"
        for folder, folders, files in os.walk(root)
        for name in (*folders, *files)
        if os.path.islink(f"{folder}/{name}")
    ]


def _drm(node: SimulatedNode, pattern: str = "card") -> dict[str, Path]:
    return {path.name: path for path in Path(node.root, "sys/class/drm").iterdir() if path.name.startswith(pattern)}


def _gpus(node: SimulatedNode) -> dict[str, Path]:
    """Card name to device folder, of what the product takes for a GPU."""
    return {
        name: path / "device"
        for name, path in _drm(node).items()
        if is_card(name) and pci_of(parse_uevent((path / "device/uevent").read_bytes()))
    }


def test_every_link_is_relative_and_leads_to_something_inside(node: SimulatedNode) -> None:
    links = _links(f"{node.root}/sys")
    root = os.path.realpath(node.root)

    assert len(links) > 20
    for link in links:
        assert not os.readlink(link).startswith("/"), link
        assert os.path.exists(link), link
        assert os.path.realpath(link).startswith(f"{root}/"), link


def test_each_gpu_is_an_amdgpu_on_the_pci_bus_and_named_by_its_links(node: SimulatedNode) -> None:
    gpus = _gpus(node)

    assert sorted(place.pci for place in node.places) == sorted(
        os.path.basename(os.readlink(path)) for path in gpus.values()
    )
    for device in gpus.values():
        assert "amdgpu" == os.path.basename(os.readlink(device / "driver"))
        assert "pci" == os.path.basename(os.readlink(device / "subsystem"))
        assert b"0x1002\n" == (device / "vendor").read_bytes()
        assert (device / "driver" / os.path.basename(os.readlink(device))).resolve() == device.resolve()


def test_gpus_start_at_card1_behind_a_display_that_is_not_theirs(node: SimulatedNode) -> None:
    cards = _drm(node)

    assert "card1" in _gpus(node)
    assert b"0x1a03\n" == (cards["card0"] / "device/vendor").read_bytes()
    assert pci_of(parse_uevent((cards["card0"] / "device/uevent").read_bytes())) is None


def test_the_numbers_of_drm_nodes_agree_with_their_uevents(node: SimulatedNode) -> None:
    for name, path in (_drm(node) | _drm(node, "renderD")).items():
        uevent = parse_uevent((path / "uevent").read_bytes())
        assert str(minor_of(name)) == uevent["MINOR"]
        assert f"226:{minor_of(name)}\n" == (path / "dev").read_text()


def test_an_mi300x_takes_eight_drm_devices_and_the_last_of_all_is_missing(mi300x: SimulatedNode) -> None:
    expected = [f"card{1 + 8 * number}" for number in range(8)]

    assert sorted(expected) == sorted(_gpus(mi300x))
    assert [f"card{number}" for number in range(64)] == sorted(_drm(mi300x), key=lambda name: minor_of(name) or 0)
    assert {f"renderD{number}" for number in range(128, 191)} == set(_drm(mi300x, "renderD"))


def test_a_partition_s_drm_device_is_a_bare_platform_device(mi300x: SimulatedNode) -> None:
    device = Path(mi300x.root, "sys/class/drm/card2/device")

    assert "amdgpu_xcp_0" == os.path.basename(os.readlink(device))
    assert "platform" == os.path.basename(os.readlink(device / "subsystem"))
    assert {"drm", "driver_override", "modalias", "power", "subsystem", "uevent"} == set(os.listdir(device))
    assert pci_of(parse_uevent((device / "uevent").read_bytes())) is None


def test_a_sensor_of_the_cpu_stands_among_the_gpus_hwmons(node: SimulatedNode) -> None:
    hwmons = sorted(Path(node.root, "sys/class/hwmon").iterdir())
    names = [(path / "name").read_text().strip() for path in hwmons]

    assert ["amdgpu"] * len(node.places) + ["k10temp"] == sorted(names)
    for path, name in zip(hwmons, names, strict=True):
        if name == "amdgpu":
            assert (path / "device").resolve() == path.resolve().parent.parent


def test_debugfs_has_a_folder_by_address_and_links_by_minor(node: SimulatedNode) -> None:
    dri = Path(node.root, "sys/kernel/debug/dri")

    for place in node.places:
        for minor in (place.drm.card_minor, place.drm.render_minor):
            assert place.pci == os.readlink(dri / str(minor))
        assert (dri / place.pci / "amdgpu_vram_mm").stat().st_size > 0


def test_files_that_a_monitor_must_not_touch_are_there_to_be_left_alone(node: SimulatedNode) -> None:
    debugfs = Path(node.root, "sys/kernel/debug/dri", node.places[0].pci)

    assert set(FORBIDDEN_DEBUGFS) <= set(os.listdir(debugfs))
    for name, _ in node.model.forbidden:
        assert Path(node.root, node.places[0].device, name).is_file()


@pytest.mark.parametrize(
    ("model", "present", "absent"),
    [
        ("mi210", ["mem_busy_percent", "unique_id", "serial_number", "pcie_bw"], ["current_compute_partition"]),
        (
            "mi300x",
            ["mem_busy_percent", "unique_id", "current_memory_partition", "xgmi_error", "pm_metrics"],
            ["fan1_input"],
        ),
        (
            "apu",
            ["gpu_busy_percent", "vbios_version"],
            ["mem_busy_percent", "unique_id", "serial_number", "pcie_bw", "ras"],
        ),
    ],
)
def test_a_model_has_the_files_that_its_driver_gives_it(
    tmp_path: Path, model: str, present: list[str], absent: list[str]
) -> None:
    with SimulatedNode(str(tmp_path), model, 1) as node:
        names = set(os.listdir(tmp_path / node.places[0].device))

    assert set(present) <= names
    assert set() == names & set(absent)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            "mi210",
            {"temp1_input", "temp2_input", "temp3_input", "freq1_input", "freq2_input", "power1_average", "in0_input"},
        ),
        ("mi300x", {"temp2_input", "temp3_input", "freq1_input", "freq2_input", "power1_input"}),
        ("mi300x-cpx", {"temp2_input", "temp3_input", "freq1_input", "freq2_input", "power1_input"}),
        ("apu", {"temp1_input", "freq1_input", "power1_average", "power1_input", "in0_input", "in1_input"}),
    ],
)
def test_hwmon_has_the_sensors_of_its_model_and_no_others(tmp_path: Path, model: str, expected: set[str]) -> None:
    with SimulatedNode(str(tmp_path), model, 1) as node:
        names = set(os.listdir(tmp_path / node.places[0].hwmon))

    assert expected == {name for name in names if name.endswith(("_input", "_average"))}


def test_the_driver_is_mainline_s(mi300x: SimulatedNode) -> None:
    module = Path(mi300x.root, "sys/module/amdgpu")

    assert module.is_dir()
    assert not (module / "version").exists()


def test_the_host_has_a_proc_of_its_own(node: SimulatedNode) -> None:
    proc = Path(node.root, "proc")

    assert f"{node.boot_id}\n" == (proc / "sys/kernel/random/boot_id").read_text()
    assert f"{node.model.kernel.release}\n" == (proc / "sys/kernel/osrelease").read_text()
    assert f"Linux version {node.model.kernel.release} " in (proc / "version").read_text()
    first = (proc / "meminfo").read_text().splitlines()[0]
    assert ["MemTotal:", str(node.model.host.memory_bytes // 1024), "kB"] == first.split()
    assert (proc / "pressure/memory").read_text().startswith("some avg10=")
