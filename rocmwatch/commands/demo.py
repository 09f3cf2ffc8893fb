"""`rocmwatch demo`: a simulated node, and the daemon watching it, for people without an AMD GPU."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import click

from rocmwatch.commands.ask import ask_json
from rocmwatch.errors import DaemonUnreachable

SETTLE_SECONDS = 20.0
TELL_SECONDS = 5.0
END_SECONDS = 5.0
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|min|h)?")
_UNITS = {None: 1, "s": 1, "min": 60, "h": 3600}
CONFIGURATION = """\
sampling:
  interval: 1s
  sensors: 1s
  fragmentation: 10s
exporter:
  listen: "127.0.0.1:{port}"
log:
  format: console
"""


class _Span(click.ParamType):
    """`60s`, `5min`, `1h`, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = _SPAN.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is no time: say 60s, 5min or 1h", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


@click.command()
@click.option("--model", default="mi300x", show_default=True, help="The simulated GPUs (`rocmwatch simulate --help`).")
@click.option("--gpus", default=8, show_default=True, help="How many of them.")
@click.option("--scenario", default="healthy", show_default=True, help="What happens to them.")
@click.option("--port", default=0, help="Where the daemon listens; a free port unless given.")
@click.option("--for", "seconds", type=_Span(), metavar="TIME", help="End by itself after this time: 60s, 5min.")
def demo(model: str, gpus: int, scenario: str, port: int, seconds: float | None) -> None:
    """A simulated node, and the daemon watching it.

    Nothing of this machine's GPUs is read and nothing is left behind. Ctrl-C ends it.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_terminated_like_interrupted())
        try:
            _play(stack, ["--model", model, "--gpus", str(gpus), "--scenario", scenario], port, seconds)
        except KeyboardInterrupt:
            click.echo("\nending")
        except DaemonUnreachable as error:
            click.echo(f"rocmwatch: {error}", err=True)
            sys.exit(1)


def _play(stack: contextlib.ExitStack, node: list[str], port: int, seconds: float | None) -> None:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rocmwatch-demo-"))
    root, config = f"{folder}/node", f"{folder}/rocmwatch.yaml"
    port = port or _free_port()
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(port=port))
    click.echo("making a simulated node: real files, laid out as the amdgpu driver lays them out")
    stack.enter_context(_process("simulate", root, *node, quiet=True))
    _wait_for(lambda: os.path.exists(f"{root}/rocmwatch-simulated.json"), "the simulated node")
    click.echo("starting the daemon on it, the same one that runs on a real node")
    daemon = stack.enter_context(_process("run", "--config", config, "--root", root))
    address = ("127.0.0.1", port)
    _wait_for(lambda: _ready(address), "the daemon", daemon)
    click.echo(f"\n  the page      http://127.0.0.1:{port}/")
    click.echo(f"  for scraping  http://127.0.0.1:{port}/metrics")
    click.echo(f"  by hand       rocmwatch status --config {config}\n")
    click.echo(f"it ends by itself after {seconds:g} s; Ctrl-C ends it now" if seconds else "Ctrl-C ends it")
    end = time.monotonic() + seconds if seconds else float("inf")
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(TELL_SECONDS, left))
        click.echo(_told(ask_json(address, "/api/v1/snapshot")))
    click.echo("that was it")


def _told(document: dict[str, Any]) -> str:
    """What is happening, in a line."""
    gpus = document["gpus"]
    watts = sum(gpu["power_watts"] or 0 for gpu in gpus)
    hottest = max((t for gpu in gpus for t in gpu["temperatures_celsius"].values() if t is not None), default=None)
    shares = [gpu["pool_used_bytes"] / gpu["pool_total_bytes"] for gpu in gpus if gpu["pool_used_bytes"] is not None]
    fullest = f"fullest {max(shares):.0%}" if shares else "nothing reported"
    heat = "" if hottest is None else f", hottest {hottest:.0f} °C"
    return f"{document['taken_at'][11:19]}  {len(gpus)} GPUs, memory: {fullest}{heat}, {watts:.0f} W together"


@contextlib.contextmanager
def _process(*arguments: str, quiet: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """One of our own commands; ended, and waited for, at the end."""
    output = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen([sys.executable, "-m", "rocmwatch", *arguments], stdout=output, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(condition: Any, what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    end = time.monotonic() + SETTLE_SECONDS
    while not condition():
        if process is not None and process.poll() is not None:
            raise DaemonUnreachable(f"{what} ended with {process.returncode}; its last words are above")
        if time.monotonic() > end:
            raise DaemonUnreachable(f"{what} was not there after {SETTLE_SECONDS:g} s")
        time.sleep(0.05)


def _ready(address: tuple[str, int]) -> bool:
    try:
        return bool(ask_json(address, "/api/v1/status"))
    except DaemonUnreachable:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that nothing of it stays behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
