"""`rocmwatch sample`: one reading, from the daemon where one runs, else taken here."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from rocmwatch.commands.ask import ask, ask_json, daemon_address
from rocmwatch.commands.options import config_option, root_option
from rocmwatch.errors import ConfigError, DaemonUnreachable, RocmwatchError

NO_GPU = "no AMD GPU found here (amdgpu, on the PCI bus); `rocmwatch demo` shows rocmwatch on a simulated node"
WATCH_SECONDS = 2.0
PIPED_WIDTH = 160


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "prometheus"]), default="table", show_default=True
)
@click.option("--watch", is_flag=True, help=f"Again every {WATCH_SECONDS:g} s, until Ctrl-C.")
@click.option("--direct", is_flag=True, help="Read the driver's files here; do not ask a running daemon.")
@config_option
@root_option
def sample(form: str, watch: bool, direct: bool, config_path: str, root: str) -> None:  # noqa: FBT001
    """One reading of the node's GPUs.

    Asks the daemon when one runs; reads for itself otherwise, and with --direct or --root.

    Exit codes: 0 fine, 1 no GPU or nothing to be had, 2 usage.
    """
    try:
        readings = _own_readings(root, form) if direct or root else _readings(config_path, form)
        _show_all(readings, form, watch=watch)
    except RocmwatchError as error:
        click.echo(f"rocmwatch: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(0)


def _show_all(readings: Iterator[Any], form: str, *, watch: bool) -> None:
    for reading in readings:
        if watch and form == "table" and sys.stdout.isatty():
            click.clear()
        _show(reading, form)
        if not watch:
            return
        sys.stdout.flush()
        time.sleep(WATCH_SECONDS)


def _show(reading: Any, form: str) -> None:
    if form == "prometheus":
        click.echo(reading, nl=False)
        return
    if not reading["gpus"]:
        raise RocmwatchError(NO_GPU)
    if form == "json":
        click.echo(json.dumps(reading, indent=2))
        return
    from rich.console import Console

    from rocmwatch.serve.tables import sample_table

    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(sample_table(reading, console.width))


def _readings(config_path: str, form: str) -> Iterator[Any]:
    """From the daemon as long as it answers; from here otherwise."""
    try:
        address = daemon_address(config_path)
        while True:
            yield (ask(address, "/metrics").decode() if form == "prometheus" else ask_json(address, "/api/v1/snapshot"))
    except (DaemonUnreachable, ConfigError):
        yield from _own_readings("", form)


def _own_readings(root: str, form: str) -> Iterator[Any]:
    from rocmwatch.observe.sampler import Pace
    from rocmwatch.picture import Studio
    from rocmwatch.serve.documents import sample_document
    from rocmwatch.serve.exposition import Exposition, Format

    studio = Studio(root, Pace(memory=WATCH_SECONDS, sensors=WATCH_SECONDS))
    try:
        while True:
            view = studio.take(config_loaded_at=0)
            for note in view.snapshot.notes if view.snapshot.sequence == 1 else ():
                click.echo(f"rocmwatch: {note}", err=True)
            if form == "prometheus":
                pieces = Exposition().scrape(view, view.snapshot.taken_at, Format.TEXT, gzip=False)
                yield b"".join(pieces).decode()
            else:
                yield sample_document(view.snapshot)
    finally:
        studio.close()
