import pytest

from rocmwatch.kernel.drm import is_card, minor_of, parse_uevent, pci_of

UEVENT = b"""DRIVER=amdgpu
PCI_CLASS=120000
PCI_ID=1002:740F
PCI_SUBSYS_ID=1002:0C34
PCI_SLOT_NAME=0000:C3:00.0
MODALIAS=pci:v00001002d0000740Fsv00001002sd00000C34bc12sc00i00
"""


@pytest.mark.parametrize(
    ("name", "yes"),
    [
        ("card0", True),
        ("card12", True),
        ("card1234", True),
        ("card", False),
        ("card1-DP-1", False),
        ("renderD128", False),
        ("version", False),
        ("cardx", False),
        ("card1\n", False),
        ("card\u0661", False),
        ("", False),
    ],
)
def test_a_card_is_told_by_its_name(name, yes):
    assert yes is is_card(name)


@pytest.mark.parametrize(
    ("name", "minor"),
    [("renderD128", 128), ("card9", 9), ("card1-DP-1", None), ("controlD64", None), ("renderD", None), ("", None)],
)
def test_the_minor_stands_in_the_name(name, minor):
    assert minor == minor_of(name)


def test_the_address_is_given_in_lower_case():
    assert pci_of(parse_uevent(UEVENT)) == "0000:c3:00.0"


def test_a_uevent_is_read_line_by_line():
    assert parse_uevent(b"DRIVER=amdgpu\nnonsense\nA=b=c\nEMPTY=\n\0\0") == {
        "DRIVER": "amdgpu",
        "A": "b=c",
        "EMPTY": "",
    }


@pytest.mark.parametrize(
    "raw",
    [
        UEVENT.replace(b"amdgpu", b"radeon"),
        UEVENT.replace(b"DRIVER=amdgpu\n", b""),
        b"DRIVER=amdgpu_xcp_drv\nMODALIAS=platform:amdgpu_xcp_0\n",
        b"DRIVER=amdgpu\nMODALIAS=platform:amdgpu_xcp_0\n",
        UEVENT.replace(b"0000:C3:00.0", b"../../etc"),
        UEVENT.replace(b"0000:C3:00.0", b"0000:C3:00.8"),
        b"",
    ],
)
def test_what_amdgpu_does_not_run_on_pci_has_no_address(raw):
    assert pci_of(parse_uevent(raw)) is None


def test_a_domain_of_more_than_four_digits_is_an_address():
    assert pci_of({"DRIVER": "amdgpu", "PCI_SLOT_NAME": "10000:e1:00.0"}) == "10000:e1:00.0"
