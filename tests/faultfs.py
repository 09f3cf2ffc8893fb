"""A file system that mirrors a folder and fails where it is told to.

A plain folder can hold what a driver's files *say*, but not what reading them can *do*: EIO, a pause, a read that never
returns. This mirrors TREE at MOUNT through FUSE and applies the faults named in the JSON file RULES, which is looked at
on every access, so that faults come and go under a running reader:

    {"/sys/class/drm/card1/device/mem_info_vram_used": "hang", "*/hwmon/hwmon*/temp2_input": "EIO"}

A key is a path below the tree, or a pattern (`*` also crosses folders). A rule is what a read of the file does:

    hang          never returns, until the rule is gone. A reader that is killed meanwhile stays in state D.
    EIO           fails; any symbolic errno will do
    slow:0.3      takes that many seconds (`cat` reads twice: once more to see the end)
    empty         gives nothing
    short:10      ends after ten bytes
    text:17\\n     says this instead
    hex:0011ff    the same for binary files

or, after `open:`, `list:` (folders) or `stat:`, what that does instead: `open:EACCES`, `list:EIO`, `open:hang`.

It runs as a process of its own, `python tests/faultfs.py TREE MOUNT RULES`, since a process that serves a file system
must not be one that reads it. Tests use `FaultFS`, which also takes it down in the order that cannot get stuck: first
the serving process dies (this frees whoever hangs), then the mount goes, then come the waits.
"""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

OPERATIONS = ("open", "list", "stat")  # what a rule may name before its colon; a rule without is about reading
CACHED_SECONDS = 0.2  # how long the kernel may keep names and modes: short for a test, long within one pass of a reader
NOT_IN_PYTHON = {"EHWPOISON": 133}  # up to 3.13
HELD = "held"  # the file beside the rules that has a line for each request that was let hang
HANGING_READS = 64  # threads of the serving process: each hanging read takes one


# The serving process ---------------------------------------------------------------------------------------------


def number_of(name: str) -> int:
    """The number of a symbolic errno."""
    return NOT_IN_PYTHON.get(name) or int(getattr(errno, name))


class Rules:
    """The rules file, parsed again when it changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held = Path(path).with_name(HELD)
        self._seen: tuple[int, int] | None = None
        self._exact: dict[tuple[str, str], str] = {}
        self._patterns: list[tuple[str, re.Pattern[str], str]] = []

    def find(self, operation: str, path: str) -> str:
        """The effect that `operation` on `path` shall have; empty for none."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return ""
        if (status.st_ino, status.st_mtime_ns) != self._seen:
            self._load()
            self._seen = (status.st_ino, status.st_mtime_ns)
        effect = self._exact.get((operation, path))
        if effect is None:
            matches = (text for of, pattern, text in self._patterns if of == operation and pattern.match(path))
            effect = next(matches, "")
        return effect

    def note_held(self, path: str) -> None:
        """Tells the tests' side that a request hangs here: until then it may still be on its way through the kernel."""
        with self._held.open("ab") as file:
            file.write(os.fsencode(path) + b"\n")

    def _load(self) -> None:
        try:
            rules = json.loads(Path(self._path).read_bytes())
        except ValueError:  # written in place and not yet whole: the last good rules hold
            return
        exact, patterns = {}, []
        for key, rule in rules.items():
            word, _, rest = rule.partition(":")
            operation, effect = (word, rest) if word in OPERATIONS else ("read", rule)
            if any(character in key for character in "*?["):
                patterns.append((operation, re.compile(fnmatch.translate(key)), effect))
            else:
                exact[operation, key] = effect
        self._exact, self._patterns = exact, patterns  # new objects: other threads are looking at the old ones


class Mirror:
    """What FUSE asks for, answered from the tree as the rules allow."""

    use_ns = True

    def __init__(self, tree: str, mount: str, rules: Rules) -> None:
        self._tree = tree
        self._mount = mount
        self._rules = rules

    def _obey(self, operation: str, path: str) -> str:
        """Hang, wait or fail as told; an effect that is about content is returned."""
        effect = self._rules.find(operation, path)
        if effect == "hang":
            self._rules.note_held(path)
        while effect == "hang":
            time.sleep(0.02)
            effect = self._rules.find(operation, path)
        if effect.startswith("slow:"):
            time.sleep(float(effect.removeprefix("slow:")))
        elif effect.isupper():
            raise OSError(number_of(effect), effect)
        return effect

    def getattr(self, path: str, handle: Any = None) -> dict[str, int]:
        self._obey("stat", path)
        status = os.lstat(self._tree + path)
        attributes = {name: getattr(status, name) for name in ("st_mode", "st_nlink", "st_uid", "st_gid")}
        times = {f"st_{kind}time": getattr(status, f"st_{kind}time_ns") for kind in "amc"}
        return attributes | times | {"st_size": 4096}  # as in sysfs

    def readdir(self, path: str, handle: Any) -> list[str]:
        self._obey("list", path)
        return [".", "..", *os.listdir(self._tree + path)]

    def readlink(self, path: str) -> str:
        target = os.readlink(self._tree + path)
        return self._mount + target.removeprefix(self._tree) if target.startswith(self._tree + "/") else target

    def open(self, path: str, file: Any) -> int:
        self._obey("open", path)
        file.fh = os.open(self._tree + path, os.O_RDONLY | os.O_CLOEXEC)
        file.direct_io = 1  # each read comes here; else the page cache answers all but the first
        return 0

    def read(self, path: str, size: int, offset: int, file: Any) -> bytes:
        effect, _, argument = self._obey("read", path).partition(":")
        content = CONTENTS.get(effect)
        return os.pread(file.fh, size, offset) if content is None else content(argument, file.fh)[offset:][:size]

    def release(self, path: str, file: Any) -> int:
        os.close(file.fh)
        return 0


CONTENTS: dict[str, Callable[[str, int], bytes]] = {  # what stands in for a file's content, by (argument, descriptor)
    "empty": lambda _argument, _file: b"",
    "text": lambda argument, _file: argument.encode(),
    "hex": lambda argument, _file: bytes.fromhex(argument),
    "short": lambda argument, file: os.pread(file, int(argument), 0),
}


def serve(tree: str, mount: str, rules: str) -> None:
    """Serve `tree` at `mount` until unmounted or killed."""
    import mfusepy as fuse  # looks for libfuse when imported: only here

    class Operations(Mirror, fuse.Operations):
        """Both: what FUSE wants to see is looked up by its base class."""

    options: dict[str, Any] = {"entry_timeout": CACHED_SECONDS, "attr_timeout": CACHED_SECONDS}
    if (fuse.fuse_version_major, fuse.fuse_version_minor) >= (3, 12):
        options["max_threads"] = HANGING_READS  # 10 else; older ones have no limit, and no such option
    flags = {"foreground": True, "raw_fi": True, "ro": True, "allow_other": True, "default_permissions": True}
    fuse.FUSE(Operations(tree, mount, Rules(rules)), mount, fsname="faultfs", **flags, **options)


def unmount(mount: str) -> None:
    """Take `mount` out of sight at once, whoever still uses it."""
    lazily = 2  # MNT_DETACH
    ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(mount), lazily)


def end_with_the_parent(mount: str) -> None:
    """End, and leave no mount behind, when the test's end of the pipe on standard input is closed or has died."""
    while os.read(0, 1):
        pass
    unmount(mount)
    os.kill(os.getpid(), 9)


# The tests' side -------------------------------------------------------------------------------------------------


class FaultFS:
    """A mirror of a folder, as a context manager.

    Attributes:
        tree: The folder that is mirrored. Change files there; the mirror is read-only.
        root: Where the mirror is seen.
    """

    def __init__(self, tree: str | Path, root: str | Path, rules: Mapping[str, str] | None = None) -> None:
        self.tree = Path(tree).resolve()
        self.root = Path(root).absolute()
        self._folder = tempfile.TemporaryDirectory(prefix="faultfs-")
        self._rules = Path(self._folder.name, "rules.json")
        self._log = Path(self._folder.name, "log")
        self._process: subprocess.Popen[bytes] | None = None
        self.set(rules or {})

    def set(self, rules: Mapping[str, str]) -> None:
        """Replace the rules; the next access obeys them, and a hanging one whose rule is gone returns."""
        new = self._rules.with_suffix(".new")
        new.write_text(json.dumps(dict(rules)))
        now = time.time_ns()  # the file system's own stamp may be the same for two files within one clock tick
        os.utime(new, ns=(now, now))
        new.replace(self._rules)

    def release(self) -> None:
        """No more faults; whoever hangs gets its answer."""
        self.set({})

    def held(self) -> list[str]:
        """The path of each request that was let hang, in their order, those that have got their answer too.

        A killed reader is stuck from here on. A request that the serving process has not fetched yet is taken back by
        the kernel when its reader is killed, and the reader just dies.
        """
        file = self._rules.with_name(HELD)
        return file.read_text().splitlines() if file.exists() else []

    def start(self, seconds: float = 10.0) -> None:
        """Mount, and return when the mirror can be read."""
        self.root.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--end-with-parent", str(self.tree), str(self.root), str(self._rules)]
        with self._log.open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        self._process = process
        deadline = time.monotonic() + seconds
        while not os.path.ismount(self.root):
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"faultfs did not mount {self.root}: {self._log.read_text()}")
            time.sleep(0.005)

    def kill(self) -> None:
        """End the serving process; every read that hangs in it fails, and the killed readers go."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def stop(self) -> None:
        """Take everything down, hanging readers or not."""
        self.kill()
        if os.path.ismount(self.root) or is_disconnected(self.root):
            unmount(str(self.root))
        self._folder.cleanup()

    def __enter__(self) -> FaultFS:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def is_disconnected(mount: Path) -> bool:
    """Whether `mount` is what a killed FUSE process leaves behind."""
    try:
        os.lstat(mount)
    except OSError as error:
        return error.errno in {errno.ENOTCONN, errno.ECONNABORTED}
    return False


def main(arguments: list[str]) -> None:
    bound = arguments[:1] == ["--end-with-parent"]
    tree, mount, rules = (os.path.abspath(path) for path in arguments[bound:])  # libfuse goes to "/"
    if bound:
        threading.Thread(target=end_with_the_parent, args=(mount,), daemon=True).start()
    serve(tree, mount, rules)


if __name__ == "__main__":
    main(sys.argv[1:])
