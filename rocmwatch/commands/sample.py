"""`rocmwatch sample`: one reading, from the daemon where one runs, else taken here."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

import click

from rocmwatch.commands.options import complain, config_option, root_option, show_each
from rocmwatch.errors import ConfigError, DaemonUnreachable, RocmwatchError

NO_GPU = "no AMD GPU found here (amdgpu, on the PCI bus); `rocmwatch demo` shows rocmwatch on a simulated node"
WATCH_SECONDS = 2.0
_GPUS = re.compile(rb"^rocmwatch_gpus (\d+)", re.MULTILINE)

Reading = dict[str, Any] | bytes  # a rocmwatch/sample/1, or the text for Prometheus
Readings = Generator[Reading, None, None]


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "prometheus"]), default="table", show_default=True
)
@click.option("--watch", is_flag=True, help=f"Again every {WATCH_SECONDS:g} s, until Ctrl-C.")
@click.option("--direct", is_flag=True, help="Read the driver's files here; do not ask a running daemon.")
@click.option(
    "--backend",
    type=click.Choice(["sysfs", "amdsmi", "auto"]),
    help="Read here: the driver's files (sysfs), with amdsmi laid over them, or with it where they lack something.",
)
@config_option
@root_option
def sample(
    form: str,
    watch: bool,  # noqa: FBT001
    direct: bool,  # noqa: FBT001
    backend: str | None,
    config_path: str,
    root: str,
) -> None:
    """One reading of the node's GPUs.

    Asks the daemon when one runs; reads for itself otherwise, and with --direct, --backend or --root.

    Exit codes: 0 fine, 1 no GPU or nothing to be had, 2 usage.
    """
    here = bool(direct or backend or root)
    readings = _own_readings(root, form, backend or "auto") if here else _readings(config_path, form)
    show_each(
        readings,
        lambda reading: _show(reading, form, clear=watch and sys.stdout.isatty()),
        WATCH_SECONDS if watch else None,
    )


def _show(reading: Reading, form: str, *, clear: bool) -> None:
    """Shows it; where there is no GPU, programs still get what they asked for."""
    if isinstance(reading, bytes):
        click.echo(reading, nl=False)
    elif form == "json":
        click.echo(json.dumps(reading, indent=2))
    elif reading["gpus"]:
        from rocmwatch.serve.tables import print_sample

        print_sample(reading, sys.stdout, clear=clear)
    if not _gpus(reading):
        raise RocmwatchError(NO_GPU)


def _gpus(reading: Reading) -> int:
    if isinstance(reading, dict):
        return len(reading["gpus"])
    match = _GPUS.search(reading)
    if match is None:
        raise DaemonUnreachable("this is not the text of a rocmwatch")
    return int(match[1])


def _readings(config_path: str, form: str) -> Readings:
    """From the daemon as long as it answers; from here otherwise."""
    from rocmwatch.commands.ask import ask, ask_json, daemon_address

    try:
        address = daemon_address(config_path)
        while True:
            reading: Reading
            if form == "prometheus":
                reading = ask(address, "/metrics")
                _gpus(reading)  # whoever answers there may be somebody else
            else:
                reading = ask_json(address, "/api/v1/snapshot", "rocmwatch/sample/1")
            yield reading
    except ConfigError as error:
        complain(error)
    except DaemonUnreachable:
        pass
    yield from _own_readings("", form, "auto")


def _own_readings(root: str, form: str, backend: str) -> Readings:
    from rocmwatch.observe.sampler import Pace
    from rocmwatch.picture import Studio

    with closing(Studio(root)) as studio:
        studio.sampler.pace = Pace(memory=WATCH_SECONDS, sensors=WATCH_SECONDS)
        studio.backend.mode = backend
        while True:
            view = studio.take(config_loaded_at=0)
            if not view.snapshot.listed:
                raise RocmwatchError("; ".join(view.snapshot.notes))
            if view.snapshot.sequence == 1 and view.snapshot.gpus:
                for note in view.snapshot.notes:
                    click.echo(f"rocmwatch: {note}", err=True)
            if form == "prometheus":
                from rocmwatch.serve.exposition import Exposition, Format

                yield b"".join(Exposition().scrape(view, view.snapshot.taken_at, Format.TEXT, gzip=False))
            else:
                from rocmwatch.serve.documents import sample_document

                yield sample_document(view.snapshot)
