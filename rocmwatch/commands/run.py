"""`rocmwatch run`."""

from __future__ import annotations

import os
import traceback

import click

from rocmwatch.commands.options import config_option, root_option


@click.command()
@config_option
@root_option
def run(config_path: str, root: str) -> None:
    """The daemon: samples the GPUs, and serves Prometheus and people.

    Reload the configuration with SIGHUP. Under systemd: systemctl enable --now rocmwatch.

    Exit codes: 0 ended by SIGTERM or Ctrl-C, 1 failed, 78 the configuration is bad.
    """
    from rocmwatch.daemon import EXIT_FAILED, Daemon

    status = EXIT_FAILED
    try:
        status = Daemon(config_path, root).run()
    except Exception:  # noqa: BLE001  # whatever it was, the threads below must not keep the process from ending
        traceback.print_exc()
    os._exit(status)  # no thread that is still in a read is waited for; whatever is kept has been written
