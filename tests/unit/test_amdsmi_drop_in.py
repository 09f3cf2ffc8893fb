"""The unit's drop-in for amdsmi is one that systemd understands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from needs import REPOSITORY, require

UNIT = REPOSITORY / "systemd" / "rocmwatch.service"
DROP_IN = REPOSITORY / "systemd" / "rocmwatch.service.d" / "amdsmi.conf"


def test_systemd_finds_nothing_wrong_in_the_unit_with_the_drop_in(tmp_path: Path) -> None:
    require("systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?m)^ExecStart=.*", "ExecStart=/bin/true", UNIT.read_text()))  # ours is not installed here
    (tmp_path / DROP_IN.parent.name).mkdir()
    shutil.copy(DROP_IN, tmp_path / DROP_IN.parent.name)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if DROP_IN.name in line or UNIT.name in line]

    assert (0, []) == (done.returncode, said)


def test_the_drop_in_opens_the_gpus_and_nothing_else() -> None:
    lines = [line for line in DROP_IN.read_text().splitlines() if re.match(r"[A-Z]\w+=", line)]

    assert ["DeviceAllow=char-226 rw", "DeviceAllow=/dev/kfd rw"] == [
        line for line in lines if line.startswith("DeviceAllow")
    ]
    assert "PrivateDevices=no" in lines
    assert "SupplementaryGroups=render video" in lines
    assert not [line for line in lines if "Capabilit" in line or line.startswith("DevicePolicy")]
