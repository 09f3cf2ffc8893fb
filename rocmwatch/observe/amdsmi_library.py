"""The one place where amdsmi is loaded: in a reader process, silenced, and only when wrapper and library agree.

An import that succeeds proves nothing (see amdsmi_versions), and one that fails raises KeyError or AttributeError as
often as anything else. So the order is: find the wrapper's source and the library's file; compare what can be compared
without loading; load the library alone and ask it for its version; import; look whether the wrapper loaded that same
file. Whatever goes wrong on the way comes out as one sentence.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from glob import glob
from importlib import import_module
from typing import Any, NamedTuple

from rocmwatch.observe.amdsmi_frame import PACKAGES, ROCM_PATH
from rocmwatch.observe.amdsmi_values import QUESTIONS, Question, pci_address
from rocmwatch.observe.amdsmi_versions import (
    Version,
    in_words,
    is_named_after_rocm,
    parse_version,
    release_in_name,
    wrapper_version,
)
from rocmwatch.observe.privilege import drop_all

USUAL_ROCM = "/opt/rocm"
LIBRARY_FILE = "libamd_smi.so"
GPUS_ONLY = 2  # AMDSMI_INIT_AMD_GPUS
NOT_SUPPORTED = 2
NOT_INITIALISED = 32
LONGEST_REASON = 300
_VERSION_BYTES = 128  # amdsmi_version_t has 24 or 32
_STATUS = {
    10: "it lacks a permission: the render and video groups are missing, or a device is not allowed",
    NOT_INITIALISED: "it finds no /sys/class/kfd, or another process holds its lock",
    34: "it finds no amdgpu driver",
}
_FROM_LINKER = ""


class Unusable(Exception):
    """amdsmi cannot be used here; the text says why.

    Attributes:
        is_absent: Whether there just is none.
    """

    def __init__(self, reason: str, *, is_absent: bool = False) -> None:
        super().__init__(" ".join(reason.split())[:LONGEST_REASON])
        self.is_absent = is_absent


class Wrapper(NamedTuple):
    """A wrapper that was found.

    Attributes:
        parent: The folder to import it from.
        version: What it says of itself.
    """

    parent: str
    version: Version


class Library(NamedTuple):
    """amdsmi, started.

    Attributes:
        handles: By PCI address. A GPU in partitions goes by its first one.
        questions: What can be asked with this version: the question, the function, and its arguments but for the GPU.
    """

    handles: dict[str, Any]
    questions: tuple[tuple[Question, Any, tuple[Any, ...]], ...]


def prepare() -> None:
    """Makes this process one in which the library can do no harm.

    Its noise, and Python's about it, goes nowhere. It reads the driver's files with no more rights than its user and
    groups have, takes no lock that other processes could hold against it, leaves no core file when it aborts, and finds
    nothing in the working folder, where some wrappers look for the library as well.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.stdout = sys.stderr = os.fdopen(null, "w")
    os.chdir("/proc")  # nobody can put a file there
    os.environ["RSMI_MUTEX_THREAD_ONLY"] = "1"
    drop_all()


def start(environ: Mapping[str, str]) -> Library:
    """Loads and starts amdsmi.

    Args:
        environ: With ROCM_PATH, if that is not the usual one, and PACKAGES.

    Raises:
        Unusable: For whatever reason.
    """
    rocm = environ.get(ROCM_PATH) or USUAL_ROCM
    os.environ.update(ROCM_PATH=rocm, ROCM_HOME=rocm)
    wrapper = _find_wrapper([f"{rocm}/share/amd_smi", *filter(None, environ.get(PACKAGES, "").split(os.pathsep))])
    path = _find_library(rocm, wrapper)
    if path and is_named_after_rocm(wrapper.version):
        _compare(wrapper, _release(path), f"{path} of ROCm")
    library = _load(path)
    path = path or _one_path()
    if is_named_after_rocm(wrapper.version):
        _compare(wrapper, _release(path), f"{path} of ROCm")
        _initialise(library)
    else:
        version = _version(library)
        if version is None:  # the old ones tell it only afterwards
            _initialise(library)
            version = _version(library)
        _compare(wrapper, version, path)
        _initialise(library)
    module = _import(wrapper)
    if _mapped() != {os.path.realpath(path)}:
        raise Unusable(f"the wrapper in {wrapper.parent} loads another library than {path}")
    return Library(_handles(module), tuple(_questions(module)))


# Finding


def _find_wrapper(parents: list[str]) -> Wrapper:
    for parent in parents:
        folder = f"{parent}/amdsmi"
        if not os.path.isfile(f"{folder}/amdsmi_interface.py"):
            continue
        version = None
        with suppress(OSError, ValueError), open(f"{folder}/_version.py", encoding="utf-8") as file:
            version = wrapper_version(file.read(4096))
        if version is None:
            raise Unusable(f"the wrapper {folder} does not say its version, so it cannot be compared")
        return Wrapper(parent, version)
    raise Unusable(f"there is no Python package amdsmi in {parents[0]} nor among this program's", is_absent=True)


def _find_library(rocm: str, wrapper: Wrapper) -> str:
    """Its path; empty when only the linker may know it."""
    named = [f"{rocm}/lib/{LIBRARY_FILE}", f"{wrapper.parent}/amdsmi/{LIBRARY_FILE}"]
    numbered = sorted(glob(f"{rocm}/lib/{LIBRARY_FILE}.*"))  # without the package that has the plain name
    return next((path for path in (*named, *numbered) if os.path.isfile(path)), _FROM_LINKER)


def _load(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path or LIBRARY_FILE)
    except OSError as error:
        raise Unusable(f"the library cannot be loaded: {error}", is_absent=path == _FROM_LINKER) from None


def _one_path() -> str:
    """Where the linker found it."""
    paths = _mapped()
    if len(paths) != 1:
        raise Unusable(f"there is more than one {LIBRARY_FILE} in this process")
    return paths.pop()


def _mapped() -> set[str]:
    """The amdsmi libraries in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in file if LIBRARY_FILE in line}
    return {path for path in paths if os.path.basename(path).startswith(LIBRARY_FILE)}


# Comparing


def _release(path: str) -> Version | None:
    """The release of ROCm that a library is of."""
    real = os.path.realpath(path)
    found = release_in_name(os.path.basename(real))
    for file in (path, real):
        if found is None:
            with suppress(OSError, ValueError), open(_info(file), encoding="utf-8") as info:
                found = parse_version(info.read(64))
    return found


def _info(library: str) -> str:
    return f"{os.path.dirname(os.path.dirname(library))}/.info/version"


def _version(library: ctypes.CDLL) -> Version | None:
    """What the library says of itself: the first three words are year, major, minor or major, minor, release."""
    words = (ctypes.c_uint32 * (_VERSION_BYTES // 4))()
    status = _function(library, "amdsmi_get_lib_version")(ctypes.byref(words))
    return None if status else (words[0], words[1], words[2])


def _compare(wrapper: Wrapper, other: Version | None, name: str) -> None:
    if other != wrapper.version:
        raise Unusable(
            f"wrapper and library are not of the same version: {wrapper.parent}/amdsmi is {in_words(wrapper.version)}, "
            f"{name} is {in_words(other)}"
        )


# Starting


def _function(library: ctypes.CDLL, name: str) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise Unusable(f"the library has no {name}") from None
    function.restype = ctypes.c_uint32
    return function


def _initialise(library: ctypes.CDLL) -> None:
    """Once it is started, the library says so to each further start."""
    status = _function(library, "amdsmi_init")(ctypes.c_uint64(GPUS_ONLY))
    if status:
        why = _STATUS.get(status)
        raise Unusable(f"it does not start: error {status}" + (f" ({why})" if why else ""))


def _import(wrapper: Wrapper) -> Any:
    sys.path.insert(0, wrapper.parent)
    try:
        return import_module("amdsmi")
    except (Exception, SystemExit) as error:  # noqa: BLE001  # none of the known ones is an ImportError
        raise Unusable(f"the import of {wrapper.parent}/amdsmi failed: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(wrapper.parent)  # its neighbours are none of ours


def _handles(module: Any) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    try:
        for handle in module.amdsmi_get_processor_handles():
            pci = pci_address(module.amdsmi_get_gpu_bdf_id(handle))
            if pci is not None:
                handles.setdefault(pci, handle)
    except Exception as error:  # noqa: BLE001  # its errors derive from nothing narrower
        raise Unusable(f"it does not list the GPUs: {type(error).__name__}: {error}") from None
    if not handles:
        raise Unusable("it sees no GPU")
    return handles


def _questions(module: Any) -> Iterator[tuple[Question, Any, tuple[Any, ...]]]:
    for question in QUESTIONS:
        with suppress(AttributeError):  # not in this version
            call = getattr(module, question.call)
            arguments = [getattr(getattr(module, kind), member) for kind, member in question.arguments]
            yield question, call, tuple(arguments)
