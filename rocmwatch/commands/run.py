"""`rocmwatch run`."""

from __future__ import annotations

import os
import traceback

import click

from rocmwatch.commands.options import config_option, root_option

EXIT_FAILED = 1


@click.command()
@config_option
@root_option
def run(config_path: str, root: str) -> None:
    """The daemon: samples the GPUs, and serves Prometheus and people.

    Reload the configuration with SIGHUP. Under systemd: systemctl enable --now rocmwatch.

    Exit codes: 0 ended by SIGTERM or Ctrl-C, 1 failed, 78 the configuration is bad.
    """
    from rocmwatch.picture import Studio

    # no capability is left from here on
    studio = Studio(root, runtime_folder=_runtime_folder(), with_processes=True, with_trends=True)
    status = EXIT_FAILED
    try:
        from rocmwatch.daemon import Daemon  # the heavy part: the launcher gets ready meanwhile

        status = Daemon(config_path, studio).run()
    except Exception:  # noqa: BLE001  # whatever it was, the threads below must not keep the process from ending
        traceback.print_exc()
    finally:
        studio.launcher.close()
    os._exit(status)  # no thread that is still in a read is waited for; whatever is kept has been written


def _runtime_folder() -> str | None:
    """What the unit's RuntimeDirectory= makes; the first, should a drop-in add others."""
    return os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or None
