"""`rocmwatch run`."""

from __future__ import annotations

import os
import sys

import click

from rocmwatch.commands.options import config_option, root_option


@click.command()
@config_option
@root_option
def run(config_path: str, root: str) -> None:
    """The daemon: samples the GPUs, and serves Prometheus and people.

    Reload the configuration with SIGHUP. Under systemd: systemctl enable --now rocmwatch.
    """
    from rocmwatch.daemon import Daemon

    status = Daemon(config_path, root).run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # no thread that is still in a read is waited for; whatever is kept has been written
