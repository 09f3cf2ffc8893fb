"""Every recorded card's small files: which are amdgpu's, and that their numbers are believed."""

import pytest

from rocmwatch.kernel.drm import is_card, parse_uevent, pci_of
from rocmwatch.kernel.memory import MEMORY
from rocmwatch.kernel.number import parse_number, parse_text
from rocmwatch.kernel.runtime_pm import parse_runtime_status

pytestmark = pytest.mark.recorded


def devices(recorded):
    return sorted(recorded.glob("lact/*/card*/device")) + sorted(recorded.glob("procfs/*/card*/device"))


def test_every_card_has_an_address_but_the_one_of_the_old_driver(recorded):
    found = {
        device.parent.parent.name: pci_of(parse_uevent((device / "uevent").read_bytes()))
        for device in devices(recorded)
    }
    assert len(found) == 16
    assert [card for card, pci in found.items() if pci is None] == ["hd7870"]
    assert found["rx6900xt"] == "0000:0c:00.0"
    assert found["strixpoint"] == "0000:c1:00.0"


def test_every_card_s_folder_is_a_card_s_name(recorded):
    assert all(is_card(device.parent.name) for device in devices(recorded))


def test_every_recorded_counter_is_believed(recorded):
    seen = 0
    for device in devices(recorded):
        for field in MEMORY:
            if (device / field.file).exists():
                parse_number((device / field.file).read_bytes(), field.low, field.high)
                seen += 1
    assert seen >= 36


def test_the_texts_of_cards(recorded):
    assert parse_text((recorded / "procfs/vega-card0/card0/device/vbios_version").read_bytes()) == "115-D050PIL-100"
    assert parse_text((recorded / "procfs/vega-card0/card0/device/serial_number").read_bytes()) is None
    assert parse_text((recorded / "lact/phoenix/card1/device/unique_id").read_bytes()) is None


def test_the_recorded_power_states(recorded):
    files = sorted(recorded.rglob("power/runtime_status"))
    assert {"active", "unsupported"} == {parse_runtime_status(file.read_bytes()) for file in files}
