"""The commands as people and scripts call them: arguments, exit codes, what is printed where, and what it takes."""

from __future__ import annotations

import ctypes
import fcntl
import http.server
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from e2e import running
from e2e.running import COMMAND, Finished, Service, environment, eventually
from faultfs import FaultFS

from rocmwatch.simulate import SimulatedNode

MOST_BYTES = 90 << 20
MOST_DESCRIPTORS = 64  # a limit, so the readers of the two GPUs below keep to it as well
QUICK = "sampling: {interval: 200ms, sensors: 1s, deadline: 200ms}"
BROKEN = "sampling: {interval: never}\n"
PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


class Places(NamedTuple):
    """What the arguments of the table may speak of."""

    root: str
    config: str
    nobody: str
    broken: str
    empty: str


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A simulated node, a daemon on it, and configurations of daemons that there are not."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "empty" / "sys").mkdir(parents=True)
    for name in ("nobody", "broken"):
        (folder / name).mkdir()
    nobody, broken = folder / "nobody" / "rocmwatch.yaml", folder / "broken" / "rocmwatch.yaml"
    nobody.write_text(f'exporter: {{listen: "127.0.0.1:{running.free_port()}"}}\n')
    broken.write_text(BROKEN)
    with SimulatedNode(str(folder / "node"), "mi300x", 2) as node:
        node.step(60)
        with Service(folder, node.root, QUICK) as service:
            yield Places(node.root, str(service.config), str(nobody), str(broken), str(folder / "empty"))


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_DESCRIPTORS, MOST_DESCRIPTORS))


def call(*arguments: str, **env: str) -> Finished:
    return running.run(*arguments, env=environment(**env), preexec_fn=limited)


# The table -------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One call. Of `out` and `err`, each part has to be there; none at all means that nothing is."""

    arguments: str
    status: int
    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()


COMMANDS = ("run", "sample", "status", "check-config", "simulate", "demo")
TWO_GPUS = ("0000:05:00.0", "0000:27:00.0")
METRICS = ("rocmwatch_gpus 2.0", 'rocmwatch_gpu_vram_used_bytes{{gpu="1",pci="0000:27:00.0"}}')
JSON = ('"schema": "rocmwatch/sample/1"', '"pci": "0000:05:00.0"')
USAGE = ("Usage: ", "Error: ")

CASES = [
    Case("--help", 0, ("Usage: ", *COMMANDS)),
    Case("-h", 0, ("Usage: ", *COMMANDS)),
    Case("--version", 0, ("rocmwatch, version ",)),
    *(Case(f"{name} --help", 0, ("Usage: ", f"rocmwatch {name} ")) for name in COMMANDS),
    Case("sample -h", 0, ("Usage: ",)),
    # wrong calls
    Case("smaple", 2, (), USAGE),
    Case("--nonsense", 2, (), USAGE),
    *(Case(f"{name} --nonsense", 2, (), USAGE) for name in COMMANDS),
    Case("sample --format xml", 2, (), (*USAGE, "prometheus")),
    Case("sample extra", 2, (), USAGE),
    Case("sample --root /nowhere", 2, (), (*USAGE, "no sys folder")),
    Case("sample --root {config}", 2, (), (*USAGE, "no sys folder")),
    Case("status --format prometheus", 2, (), USAGE),
    Case("status extra", 2, (), USAGE),
    Case("run --root /nowhere", 2, (), (*USAGE, "no sys folder")),
    Case("run extra", 2, (), USAGE),
    Case("demo --model voodoo2", 2, (), (*USAGE, "voodoo2", "mi300x")),
    Case("demo --scenario nonsense", 2, (), (*USAGE, "healthy")),
    Case("demo --scenario partition-switch --model mi210", 2, (), (*USAGE, "cannot happen to mi210")),
    Case("demo --gpus 0", 2, (), USAGE),
    Case("demo --gpus 99", 2, (), (*USAGE, "1 to 8 GPUs")),
    Case("demo --gpus many", 2, (), USAGE),
    Case("demo --for soon", 2, (), (*USAGE, "soon")),
    Case("demo --for -5s", 2, (), USAGE),
    Case("demo --port 0", 2, (), USAGE),
    Case("demo --port 65536", 2, (), USAGE),
    Case("simulate", 2, (), USAGE),
    # one reading, taken here
    Case("sample --root {root}", 0, TWO_GPUS),
    Case("sample --direct --root {root} --format json", 0, JSON),
    Case("sample --root {root} --format prometheus", 0, METRICS),
    Case("sample --root {empty}", 1, (), ("no AMD GPU", "rocmwatch demo")),
    Case("sample --root {empty} --format json", 1, ('"gpus": []',), ("no AMD GPU", "rocmwatch demo")),
    Case("sample --root {empty} --format prometheus", 1, ("rocmwatch_gpus 0.0",), ("no AMD GPU", "rocmwatch demo")),
    # one reading, from the daemon
    Case("sample --config {config}", 0, TWO_GPUS),
    Case("sample --config {config} --format json", 0, JSON),
    Case("sample --config {config} --format prometheus", 0, (*METRICS, "rocmwatch_sample_age_seconds{{")),
    # the daemon
    Case("status --config {config}", 0, ("GPUs           2 (2 active)", "memory ", " ago, took ")),
    Case("status --config {config} --format json", 0, ('"schema": "rocmwatch/status/1"',)),
    Case("status --config {nobody}", 1, (), ("no daemon at http://127.0.0.1:", "is it running?")),
    Case("status --config {broken}", 78, (), ("{broken}:1: ",)),
    Case("status --config /nowhere.yaml", 78, (), ("/nowhere.yaml: no such file",)),
    Case("run --config {broken}", 78, (), ("{broken}:1: ",)),
    Case("run --config /nowhere.yaml", 78, (), ("/nowhere.yaml: no such file",)),
]


@pytest.mark.parametrize("case", CASES, ids=[case.arguments or "nothing" for case in CASES])
def test_a_call_ends_with_its_status_and_words_and_within_its_means(case: Case, places: Places) -> None:
    ended = call(*case.arguments.format(**places._asdict()).split())

    assert (ended.status, ended.err if case.err == () else "") == (case.status, ""), ended.err
    for parts, text in ((case.out, ended.out), (case.err, ended.err)):
        assert [part for part in parts if part.format(**places._asdict()) not in text] == [], text
        assert bool(text) == bool(parts)
    assert "Traceback" not in ended.out + ended.err
    assert ended.peak_bytes < MOST_BYTES
    if case.status == 1:
        assert ended.err.startswith("rocmwatch: ")
        assert len(ended.err.splitlines()) == 1


# sample ----------------------------------------------------------------------------------------------------------


def test_both_ways_to_a_reading_give_the_same(places: Places) -> None:
    direct = json.loads(call("sample", "--root", places.root, "--format", "json").out)
    asked = json.loads(call("sample", "--config", places.config, "--format", "json").out)

    own = {"faults": [], "sampled_at": {}, "throttle_ratio": {}}  # each at its own moment; a first reading has no share
    assert [gpu | own for gpu in direct["gpus"]] == [gpu | own for gpu in asked["gpus"]]
    assert direct["gpus"][0]["vram_used_bytes"] > 100 << 30


def test_the_root_may_come_from_the_environment(places: Places) -> None:
    ended = call("sample", "--format", "json", ROCMWATCH_ROOT=places.root)
    wrong = call("sample", ROCMWATCH_ROOT="/nowhere")

    assert [gpu["pci"] for gpu in json.loads(ended.out)["gpus"]] == list(TWO_GPUS)
    assert (wrong.status, "no sys folder" in wrong.err) == (2, True)


def test_a_broken_configuration_is_told_and_the_reading_is_taken_here(places: Places) -> None:
    ended = call("sample", "--config", places.broken)

    assert f"rocmwatch: {places.broken}:1: " in ended.err
    assert ended.status in {0, 1}  # whether this machine has a GPU
    assert "Traceback" not in ended.err


def test_without_a_daemon_the_reading_is_taken_here_without_a_word_about_it(places: Places) -> None:
    ended = call("sample", "--config", places.nobody)

    assert "no daemon" not in ended.err
    assert ended.status in {0, 1}


@pytest.mark.parametrize("form", ["table", "prometheus"])
def test_watching_ends_with_ctrl_c_and_0(places: Places, form: str) -> None:
    command = [*COMMAND, "sample", "--watch", "--root", places.root, "--format", form]
    sign = {"table": b"GPU  PCI", "prometheus": b"\nrocmwatch_gpus "}[form]
    with (
        tidy(),
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        seen = b""
        while seen.count(sign) < 2:
            data = os.read(process.stdout.fileno(), 65536)
            assert data, process.stderr.read()
            seen += data
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        errors = process.stderr.read()

    assert process.returncode == 0
    assert errors == b""


@pytest.mark.parametrize("arguments", ["sample --watch", "sample --format json"])
def test_output_into_a_closed_pipe_ends_it_without_a_word(places: Places, arguments: str) -> None:
    command = [*COMMAND, *arguments.split(), "--root", places.root]
    with (
        tidy(),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        if "--watch" in arguments:
            process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()

    assert process.returncode == 1
    assert errors == ""


@pytest.mark.parametrize("arguments", ["--help", "sample --root {root}", "sample --format json --root {root}"])
def test_a_full_disk_is_one_line(places: Places, arguments: str) -> None:
    with open("/dev/full", "w") as full:
        ended = running.run(*arguments.format(root=places.root).split(), stdout=full)

    assert ended.status == 1
    assert len(ended.err.splitlines()) == 1
    assert "No space left" in ended.err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_trouble(places: Places, closed: str) -> None:
    script = f'exec "$@" {closed}'
    command = ["sh", "-c", script, "sh", *COMMAND, "sample", "--root", places.root]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)

    assert ended.returncode == 0
    assert ended.stderr == ""
    assert ("0000:05:00.0" in ended.stdout) == (" >&-" not in f" {closed}")


# Terminals -------------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, columns: int, **env: str) -> str:
    """What a terminal of that width is sent."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(TERM="xterm") | env
    )
    os.close(theirs)
    text = b""
    try:
        while data := os.read(ours, 4096):
            text += data
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0, text
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("command", ["sample", "status"])
def test_on_80_columns_no_line_is_wrapped(places: Places, command: str) -> None:
    text = on_a_terminal(command, "--config", places.config, columns=80, NO_COLOR="1", COLUMNS="")
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()

    assert max(len(line) for line in lines if places.root not in line) <= 80
    assert "…" not in text
    assert len(lines) >= 3


def test_a_dumb_terminal_gets_no_control_sequences(places: Places) -> None:
    assert "\x1b" not in on_a_terminal("sample", "--config", places.config, columns=80, TERM="dumb")


def test_no_color_means_no_colour(places: Places) -> None:
    text = on_a_terminal("sample", "--config", places.config, columns=120, NO_COLOR="1")

    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", text)


@pytest.mark.parametrize(
    "env",
    [PLAIN_C, {"PYTHONIOENCODING": "latin-1:strict"}],
    ids=["C", "latin-1"],
)
def test_without_unicode_everything_is_said_in_plain_characters(places: Places, env: dict[str, str]) -> None:
    table = call("sample", "--root", places.root, **env)
    text = call("sample", "--root", places.root, "--format", "prometheus", **env)
    status = call("status", "--config", places.config, **env)

    assert [ended.status for ended in (table, text, status)] == [0, 0, 0], table.err + text.err + status.err
    assert "#########." in table.out
    assert table.out.isascii()
    assert "?" not in table.out


# status ----------------------------------------------------------------------------------------------------------


class Foreign(http.server.BaseHTTPRequestHandler):
    """Somebody else's server."""

    answers: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answers.get(self.path, b"hello"))

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def foreign(folder: Path, **answers: bytes) -> Iterator[str]:
    """The configuration of a daemon whose port belongs to somebody else."""
    handler = type(
        "Handler", (Foreign,), {"answers": {f"/{name.replace('_', '/')}": text for name, text in answers.items()}}
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        config = folder / "foreign.yaml"
        config.write_text(f'exporter: {{listen: "127.0.0.1:{server.server_port}"}}\n')
        try:
            yield str(config)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "body",
    [b"hello", b"[]", b'{"gpus": []}', b"\xff\xfe", b"[" * 100_000, b'{"schema": "rocmwatch/sample/1"}'],
    ids=["text", "list", "near miss", "binary", "deep", "another document"],
)
def test_a_foreign_server_is_no_daemon(tmp_path: Path, body: bytes) -> None:
    with foreign(tmp_path, api_v1_status=body) as config:
        ended = call("status", "--config", config)

    assert ended.status == 1
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert "no rocmwatch" in ended.err


@pytest.mark.parametrize("form", ["json", "prometheus"])
def test_nothing_of_a_foreign_server_is_passed_off_as_a_reading(tmp_path: Path, form: str) -> None:
    with foreign(tmp_path, metrics=b"foreign_gpus 17\n", api_v1_snapshot=b'{"gpus": [{"pci": "foreign"}]}') as config:
        ended = call("sample", "--config", config, "--format", form)

    assert "foreign" not in ended.out
    assert "Traceback" not in ended.err
    assert ended.status in {0, 1}


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = tmp_path / "rocmwatch.yaml"
        config.write_text(f'exporter: {{listen: "127.0.0.1:{server.getsockname()[1]}"}}\n')
        began = time.monotonic()
        ended = call("status", "--config", str(config))

    assert ended.status == 1
    assert "timed out" in ended.err
    assert time.monotonic() - began < 10


@pytest.mark.fuse
def test_a_gpu_in_trouble_makes_status_1_and_is_named(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", 2) as node, FaultFS(node.root, tmp_path / "mirror") as mirror:
        config = "sampling: {interval: 1s, sensors: 1s, deadline: 1s}"
        with Service(tmp_path, mirror.root, config) as service:
            mirror.set({"*/0000:27:00.0/mem_info_vram_used": "hang"})
            eventually(lambda: "stalled" in service.states().values(), "a stalled GPU")
            table = call("status", "--config", str(service.config))
            document = call("status", "--config", str(service.config), "--format", "json")
            mirror.release()

    assert (table.status, document.status) == (1, 1)
    assert "2 (1 active, 1 stalled)" in table.out
    assert "GPU 1          0000:27:00.0 stalled" in table.out
    assert [gpu["state"] for gpu in json.loads(document.out)["gpus"]] == ["active", "stalled"]


def test_a_gpu_that_sleeps_is_no_trouble(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path / "node"), "mi210", 1) as node:
        Path(node.root, "sys/class/drm/card1/device/power/runtime_status").write_text("suspended\n")
        with Service(tmp_path, node.root, QUICK) as service:
            ended = call("status", "--config", str(service.config))

    assert (ended.status, "1 (1 suspended)" in ended.out) == (0, True), ended


# What is loaded for it -------------------------------------------------------------------------------------------

HEAVY = ("apscheduler", "cheroot", "http.client", "prometheus_client", "pydantic", "rich", "structlog", "yaml")


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        ("--help", set()),
        ("sample --help", set()),
        ("status --help", set()),
        ("run --help", set()),
        ("sample --root {root}", {"rich"}),
        ("sample --root {root} --format json", set()),
        ("sample --root {root} --format prometheus", {"prometheus_client", "http.client"}),
        ("status --config {config}", {"http.client", "pydantic", "yaml"}),
    ],
)
def test_a_command_loads_what_it_needs_and_no_more(places: Places, arguments: str, loaded: set[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "rocmwatch", *arguments.format(**places._asdict()).split()]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    names = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}

    assert {name for name in HEAVY if name in names} <= loaded
    assert not any(name.startswith("rocmwatch.simulate") for name in names)


# Nobody is left --------------------------------------------------------------------------------------------------


@contextmanager
def tidy() -> Iterator[None]:
    """Orphans become ours meanwhile, so that they can be seen; there must be none."""
    set_child_subreaper = 36
    libc = ctypes.CDLL(None)
    libc.prctl(set_child_subreaper, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(set_child_subreaper, 0, 0, 0, 0)
        orphans = [
            process for process in running.processes() if process.parent == os.getpid() and process.name[:3] == "rw-"
        ]
        try:
            eventually(lambda: not any(running.alive(orphan.pid) for orphan in orphans), f"an end of {orphans}", 3)
        finally:
            for orphan in orphans:
                os.waitpid(orphan.pid, os.WNOHANG)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_command_that_is_killed_leaves_nobody(places: Places, number: int) -> None:
    with (
        tidy(),
        subprocess.Popen(
            [*COMMAND, "sample", "--watch", "--root", places.root], stdout=subprocess.PIPE, env=environment()
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        process.stdout.read()

    assert process.returncode == -number
