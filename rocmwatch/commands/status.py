"""`rocmwatch status`."""

from __future__ import annotations

import json
import sys

import click

from rocmwatch.commands.ask import ask_json, daemon_address
from rocmwatch.commands.options import config_option
from rocmwatch.errors import ConfigError, RocmwatchError

HEALTHY_STATES = frozenset({"active", "suspended"})


@click.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@config_option
def status(form: str, config_path: str) -> None:
    """How the daemon and its GPUs are.

    Exit codes: 0 all is well, 1 no daemon, or a GPU is stalled, resetting or lost, 78 the configuration is bad.
    """
    try:
        document = ask_json(daemon_address(config_path), "/api/v1/status")
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"rocmwatch: {problem}", err=True)
        sys.exit(78)
    except RocmwatchError as error:
        click.echo(f"rocmwatch: {error}", err=True)
        sys.exit(1)
    if form == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        from rocmwatch.serve.tables import status_lines

        for line in status_lines(document):
            click.echo(line)
    sys.exit(0 if all(gpu["state"] in HEALTHY_STATES for gpu in document["gpus"]) else 1)
