"""`rocmwatch ps`: who holds the memory, by what right."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

import click

from rocmwatch.commands.options import complain, config_option, root_option, show_each
from rocmwatch.errors import ConfigError, DaemonUnreachable, RocmwatchError

WATCH_SECONDS = 2.0
WIDTH = 160  # of lines that nobody's terminal bounds

Document = dict[str, Any]


@click.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--watch", is_flag=True, help=f"Again every {WATCH_SECONDS:g} s, until Ctrl-C.")
@click.option("--direct", is_flag=True, help="Look for yourself; do not ask a running daemon.")
@config_option
@root_option
def ps(form: str, watch: bool, direct: bool, config_path: str, root: str) -> None:  # noqa: FBT001
    """Who holds the GPUs' memory: each process with its owner, its class and the reason for that.

    Asks the daemon when one runs, as it knows for how long a GPU has been idle; looks for itself otherwise, and with
    --direct or --root. To see everybody's processes takes root.

    Exit codes: 0 fine, 1 nothing to be had, 2 usage.
    """
    show_each(
        _documents(config_path, root, direct=direct),
        lambda document: _show(document, form, clear=watch and sys.stdout.isatty()),
        WATCH_SECONDS if watch else None,
    )


def _show(document: Document, form: str, *, clear: bool) -> None:
    if form == "json":
        click.echo(json.dumps(document, indent=2))
        return
    from rich.console import Console

    from rocmwatch.serve.holder_lines import holder_lines

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    if clear:
        console.clear()
    for line in holder_lines(document, ascii_only=console.options.ascii_only):
        console.print(line, soft_wrap=True)


def _documents(config_path: str, root: str, *, direct: bool) -> Generator[Document, None, None]:
    if not (direct or root):
        from rocmwatch.commands.ask import ask_json, daemon_address

        try:
            address = daemon_address(config_path)
            while True:
                yield ask_json(address, "/api/v1/holders", "rocmwatch/holders/1")
        except ConfigError as error:
            complain(error)
        except DaemonUnreachable:
            pass
    from rocmwatch.observe.sampler import Pace
    from rocmwatch.picture import Studio
    from rocmwatch.serve.holders_document import holders_document

    with closing(Studio(root, with_processes=True)) as studio:
        studio.sampler.pace = Pace(memory=WATCH_SECONDS, sensors=WATCH_SECONDS)
        while True:
            view = studio.take(config_loaded_at=0)
            if not view.snapshot.listed:
                raise RocmwatchError("; ".join(view.snapshot.notes))
            yield holders_document(view)
