"""`rocmwatch demo`: a simulated node, and the daemon watching it, for people without an AMD GPU."""

from __future__ import annotations

import math
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import click

from rocmwatch.commands.ask import ask, ask_json
from rocmwatch.commands.options import complain, duration
from rocmwatch.commands.simulate import scenario_option
from rocmwatch.errors import DaemonUnreachable, RocmwatchError
from rocmwatch.serve.wording import size, span
from rocmwatch.simulate import KERNELS, MODELS, SimulatedNode

HEAD_START_SECONDS = 120.0  # by then the models are loaded and requests come in
BEFORE_IT_BEGINS_SECONDS = 12.0  # what happens in a scenario is seen from its beginning
MOVE_SECONDS = 1.0
LOOK_SECONDS = 0.5
TELL_SECONDS = 5.0
READY_SECONDS = 30.0
END_SECONDS = 5.0
HOST = "127.0.0.1"
CONFIGURATION = f"""\
sampling: {{interval: 1s, sensors: 1s, fragmentation: 10s}}
exporter: {{listen: "{HOST}:%d"}}
log: {{level: warning, format: console}}
"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.option("--model", type=click.Choice(list(MODELS)), default="mi300x", show_default=True, help="The GPUs' model.")
@click.option("--kernel", type=click.Choice(list(KERNELS)), help="What drives them. [default: the model's own]")
@click.option("--gpus", type=click.IntRange(min=1), help="How many. [default: as many as such a node has]")
@scenario_option
@click.option("--port", type=click.IntRange(1, 65535), help="Where the daemon listens. [default: a free port]")
@click.option("--for", "seconds", callback=duration, metavar="TIME", help="End by itself after this time: 60s, 5min.")
def demo(
    model: str, kernel: str | None, gpus: int | None, scenario: str, port: int | None, seconds: float | None
) -> None:
    """A simulated node, and the daemon watching it.

    Nothing of this machine's GPUs is read and nothing is left behind. Ctrl-C ends it.

    Exit codes: 0 ended as told, 1 failed, 2 usage.
    """
    try:
        with ExitStack() as stack:
            node = _node(stack, model, kernel, gpus, scenario)
            _play(stack, node, port, seconds)
    except BrokenPipeError:  # nobody reads us any more: click ends without a word
        raise
    except (RocmwatchError, OSError) as error:
        complain(error)
        sys.exit(1)


def _node(stack: ExitStack, model: str, kernel: str | None, gpus: int | None, scenario: str) -> SimulatedNode:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rocmwatch-demo-"))
    try:
        return SimulatedNode(f"{folder}/node", model, gpus or len(MODELS[model].pci), scenario, kernel=kernel)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _play(stack: ExitStack, node: SimulatedNode, port: int | None, seconds: float | None) -> None:
    stop = stack.enter_context(_signals())
    address = (HOST, _free_port(port))
    config = f"{os.path.dirname(node.root)}/rocmwatch.yaml"
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION % address[1])
    click.echo(f"Making a simulated node: {len(node.places)} x {node.model.product}.")
    stack.enter_context(_moving(node, stop))
    click.echo("Starting the daemon on it.")
    daemon = stack.enter_context(_daemon(config, node.root))
    if _wait_until_ready(daemon, address, stop):
        click.echo(_introduction(node, address, config, seconds))
        _tell(daemon, address, seconds, stop)
    click.echo("Ending: the daemon stops, and the simulated node is removed.")


def _introduction(node: SimulatedNode, address: tuple[str, int], config: str, seconds: float | None) -> str:
    url = f"http://{address[0]}:{address[1]}"
    ending = "Ctrl-C ends it." if seconds is None else f"It ends by itself after {span(seconds)}; Ctrl-C ends it now."
    return f"""
The daemon is the one that runs on a real node. It reads the files below
{node.root}, which look and move as the amdgpu driver's do
while the GPUs serve a language model, and it shows what it reads here:

  the page      {url}/
  Prometheus    {url}/metrics
  by hand       {_program()} status --config {config}
                {_program()} sample --config {config}
{_what_happens(node)}
{ending}
"""


def _what_happens(node: SimulatedNode) -> str:
    """A line about a scenario in which something does."""
    begins_at, summary = node.scenario.begins_at, node.scenario.summary
    return "" if math.isinf(begins_at) else f"\nSoon, in {node.scenario.name}: {summary}.\n"


def _program() -> str:
    """How to call this program again from where the user is."""
    called = sys.argv[0]
    return shlex.quote(called) if os.path.basename(called) == "rocmwatch" else f"{sys.executable} -m rocmwatch"


def _tell(daemon: subprocess.Popen[bytes], address: tuple[str, int], seconds: float | None, stop: _Stop) -> None:
    """Says now and then what is happening, until the time is over."""
    now = tell_at = time.monotonic()
    end = float("inf") if seconds is None else now + seconds
    while now < end:
        _expect_life(daemon)
        if now >= tell_at:
            click.echo(_in_a_line(ask_json(address, "/api/v1/snapshot", "rocmwatch/sample/1")))
            tell_at += TELL_SECONDS
        if stop.wait(min(LOOK_SECONDS, end - now)):
            return
        now = time.monotonic()


def _in_a_line(document: dict[str, Any]) -> str:
    gpus = [gpu for gpu in document["gpus"] if gpu["pool_used_bytes"] is not None and gpu["pool_total_bytes"]]
    used, total = (sum(gpu[f"pool_{what}_bytes"] for gpu in gpus) for what in ("used", "total"))
    degrees = [value for gpu in gpus for value in gpu["temperatures_celsius"].values() if value is not None]
    states = Counter(gpu["state"] for gpu in document["gpus"] if gpu["state"] != "active")
    facts = [f"{time.strftime('%H:%M:%S')}  {len(document['gpus'])} GPUs"]
    facts += [f"{count} {state}" for state, count in states.items()]
    if total:
        facts.append(f"{size(used)} of {size(total)} in use")
    if degrees:
        facts.append(f"hottest {max(degrees):.0f} °C")
    facts.append(f"{sum(gpu['power_watts'] or 0 for gpu in gpus):.0f} W together")
    return ", ".join(facts)


class _Stop:
    """Set by a signal and waited for by two threads; a pipe, as no lock is safe in a signal's handler."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def set(self, *_: object) -> None:
        os.write(self._write, b"x")

    def wait(self, timeout: float, /) -> bool:
        return bool(select.select([self._read], [], [], max(0.0, timeout))[0])

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


@contextmanager
def _signals() -> Iterator[_Stop]:
    """From here on Ctrl-C, SIGTERM and a terminal that closes end the demo where it can end cleanly."""
    with closing(_Stop()) as stop:
        before = {number: signal.signal(number, stop.set) for number in _SIGNALS}
        try:
            yield stop
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _moving(node: SimulatedNode, stop: _Stop) -> Iterator[None]:
    """The node's files, written, and moving in a thread."""
    with node:
        node.step(min(HEAD_START_SECONDS, node.scenario.begins_at - BEFORE_IT_BEGINS_SECONDS))
        thread = threading.Thread(target=node.run, args=(MOVE_SECONDS, stop), name="node")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def _daemon(config: str, root: str) -> Iterator[subprocess.Popen[bytes]]:
    """`rocmwatch run`; ended, and waited for, at the end."""
    command = [sys.executable, "-m", "rocmwatch", "run", "--config", config, "--root", root]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # Ctrl-C is ours to handle
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(daemon: subprocess.Popen[bytes], address: tuple[str, int], stop: _Stop) -> bool:
    """Whether it is ready; false when the wait was cut short by a signal."""
    end = time.monotonic() + READY_SECONDS
    while not stop.wait(0.05):
        _expect_life(daemon)
        try:
            ask(address, "/-/ready")
        except DaemonUnreachable:
            if time.monotonic() > end:
                raise
        else:
            return True
    return False


def _expect_life(daemon: subprocess.Popen[bytes]) -> None:
    if daemon.poll() is not None:
        raise DaemonUnreachable(f"the daemon ended with {daemon.returncode}; what it had to say is above")


def _free_port(wanted: int | None) -> int:
    try:
        with socket.create_server((HOST, wanted or 0)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise RocmwatchError(f"--port {wanted}: {os.strerror(error.errno or 0)}; another one may be free") from None
