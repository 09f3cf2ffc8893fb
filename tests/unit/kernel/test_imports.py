import subprocess
import sys
from pathlib import Path

import rocmwatch.kernel

FOLDER = Path(rocmwatch.kernel.__file__).parent
HEAVY = {"dataclasses", "inspect", "logging", "pathlib", "json", "datetime", "decimal", "subprocess", "socket"}


def test_the_room_costs_a_reader_little():
    modules = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    lines = [
        f"sys.path.insert(0, {str(FOLDER.parent.parent)!r})",
        *(f"import rocmwatch.kernel.{one}" for one in modules),
    ]
    code = "\n".join(["import sys", *lines, "print(*sys.modules)"])
    out = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True).stdout
    assert "rocmwatch.kernel.gpu_metrics" in out.split()
    assert HEAVY & set(out.split()) == set()
