"""`rocmwatch status`."""

from __future__ import annotations

import json
import sys

import click

from rocmwatch.commands.options import config_option, failing


@click.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@config_option
def status(form: str, config_path: str) -> None:
    """How the daemon and its GPUs are.

    Exit codes: 0 all is well, 1 no daemon, or a GPU is stalled, resetting or lost, 78 the configuration is bad.
    """
    from rocmwatch.commands.ask import ask_json, daemon_address
    from rocmwatch.serve.tables import HEALTHY, status_lines

    with failing():
        document = ask_json(daemon_address(config_path), "/api/v1/status", "rocmwatch/status/1")
    if form == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        for line in status_lines(document):
            click.echo(line)
    sys.exit(0 if all(gpu["state"] in HEALTHY for gpu in document["gpus"]) else 1)
