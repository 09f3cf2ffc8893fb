"""An installation of ROCm as far as amdsmi goes: our own small library, and the real Python wrapper that loads it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from needs import require
from watching import PACE, HandClock, children_of, state_of

from rocmwatch.model import GpuReading, Snapshot
from rocmwatch.observe.amdsmi_crew import AmdsmiCrew
from rocmwatch.observe.backend import AMDSMI, Backend
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.link import LauncherLink
from rocmwatch.observe.ordinals import Ordinals
from rocmwatch.observe.sampler import Pace, Sampler

PATIENT = PACE._replace(deadline=5.0)  # a busy machine may take long to start a library; nothing is to hang here
SOURCE = Path(__file__).parent / "amdsmi_backend" / "stub" / "amd_smi.c"
_WANTED = re.compile(r"_libraries\['libamd_smi\.so'\]\.(amdsmi_\w+)")
_DEFINED = re.compile(r"^uint32_t (amdsmi_\w+)\(", re.MULTILINE)


def wrapper_folder() -> Path:
    """Where the wrapper from PyPI is; it is found without being imported."""
    spec = importlib.util.find_spec("amdsmi")
    assert spec is not None, "a runtime dependency is missing: amdsmi"
    assert spec.origin is not None
    return Path(spec.origin).parent


def build(folder: Path, leave_out: Collection[str] = ()) -> Path:
    """Compiles the library; without some functions, if wanted."""
    require("gcc")
    own = set(_DEFINED.findall(SOURCE.read_text()))
    wanted = set(_WANTED.findall((wrapper_folder() / "amdsmi_wrapper.py").read_text()))
    rest = sorted(wanted - own - set(leave_out))
    (folder / "rest.c").write_text("".join(f"unsigned {name}(void) {{ return 2; }}\n" for name in rest))
    renamed = [f"-D{name}=left_out_{name}" for name in own & set(leave_out)]
    library = folder / "libamd_smi.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-format-truncation", *renamed]
    subprocess.run([*command, "-o", str(library), str(SOURCE), str(folder / "rest.c")], check=True)
    return library


class Rocm:
    """One installation.

    Attributes:
        path: What ROCM_PATH is to be.
        library: The file that is loaded.
    """

    def __init__(self, path: Path, built: Path, release: str = "7.0.2", *, own_wrapper: str = "") -> None:
        """Installs it.

        Args:
            path: A new folder.
            built: The compiled library.
            release: What .info/version says.
            own_wrapper: The version of the wrapper that comes with it; without it there is the one from PyPI only.
        """
        self.path = path
        self.library = path / "lib" / "libamd_smi.so"
        self.library.parent.mkdir(parents=True)
        shutil.copy(built, self.library)
        (path / ".info").mkdir()
        (path / ".info" / "version").write_text(f"{release}-56\n")
        if own_wrapper:
            parent = path / "share" / "amd_smi" / "amdsmi"
            shutil.copytree(wrapper_folder(), parent, ignore=shutil.ignore_patterns("__pycache__"))
            (parent / "_version.py").write_text(f'__version__ = "{own_wrapper}"\n')
        self._lines: dict[str, str] = {}

    def tell(self, **lines: object) -> None:
        """Tells the library what to do from now on, beside what it was told; `None` takes a line back."""
        self._lines |= {key: str(value) for key, value in lines.items() if value is not None}
        for key in [key for key, value in lines.items() if value is None]:
            self._lines.pop(key, None)
        new = self.library.parent / "control.new"
        new.write_text("".join(f"{key} {value}\n" for key, value in self._lines.items()))
        new.rename(self.library.parent / "control")

    def listen(self) -> None:
        """From now on the calls are written down."""
        (self.library.parent / "calls").write_text("")

    def calls(self) -> list[tuple[str, str]]:
        """(function, PCI address) of each call so far."""
        lines = (self.library.parent / "calls").read_text().splitlines()
        return [(call, pci) for call, _, pci in (line.partition(" ") for line in lines)]


class Pair:
    """Takes snapshots of a tree with both backends' eyes.

    Attributes:
        clock: Moved by hand.
        backend: Its mode may be set.
    """

    def __init__(self, root: str | Path, mode: str = AMDSMI, pace: Pace = PATIENT) -> None:
        self.clock = HandClock()
        self.launcher = LauncherLink(str(root))
        self.amdsmi = AmdsmiCrew(self.launcher)
        self.backend = Backend(Crew(self.launcher), self.amdsmi, mode)
        self.sampler = Sampler(self.backend, self.clock, Ordinals(), pace)

    def tick(self, seconds: float = 5.0) -> Snapshot:
        """The picture, so many seconds later."""
        self.clock.now += seconds
        return self.sampler.tick()

    @property
    def is_starting(self) -> bool:
        """Whether amdsmi has a reader that is not through with its start."""
        return self.amdsmi.is_running and self.amdsmi._well_since is None

    def close(self) -> None:
        self.backend.close()
        self.launcher.close()


def values(reading: GpuReading) -> dict[str, object]:
    """What amdsmi could say of a GPU."""
    assert reading.sample is not None
    sample, limits = reading.sample, reading.limits
    memory = {
        f"{kind}_{part}_bytes": getattr(sample, f"{kind}_{part}_bytes")
        for kind in ("vram", "visible_vram", "gtt")
        for part in ("total", "used")
    }
    return {
        **memory,
        "temperatures": dict(sample.temperatures_celsius),
        "clocks": dict(sample.clocks_hertz),
        "power": sample.power_watts,
        "busy": dict(sample.busy_ratio),
        "temperature_limits": dict(limits.temperatures_celsius),
        "clock_limits": dict(limits.clocks_hertz),
        "power_cap": limits.power_cap_watts,
    }


Make = Callable[..., Rocm]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled once."""
    return build(tmp_path_factory.mktemp("libamd_smi"))


@pytest.fixture
def rocm(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Installs ROCm, and lets ROCM_PATH lead to it: `rocm(root)`."""

    def make(root: str | Path = "", release: str = "7.0.2", **options: str) -> Rocm:
        installed = Rocm(tmp_path / "rocm", built, release, **options)
        installed.tell(root=root) if root else installed.tell()
        monkeypatch.setenv("ROCM_PATH", str(installed.path))
        return installed

    return make


@pytest.fixture
def pair() -> Iterator[Callable[..., Pair]]:
    """Makes pairs that are ended after the test."""
    with ExitStack() as stack:

        def make(root: str | Path, **options: object) -> Pair:
            made = Pair(root, **options)  # type: ignore[arg-type]
            stack.callback(made.close)
            return made

        yield make


def children_of_role(launcher: int, name: str) -> list[int]:
    """The readers of a kind that live."""
    found = []
    for pid in children_of(launcher):
        try:
            comm = Path(f"/proc/{pid}/comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if comm == name and state_of(pid) not in ("Z", ""):
            found.append(pid)
    return found


def cpu_nanoseconds(pid: int) -> int:
    """CPU time of a process so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
