"""Options that several commands share, spelled once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

DEFAULT_CONFIG = "/etc/rocmwatch/rocmwatch.yaml"

config_option: Callable[..., Any] = click.option(
    "--config", "config_path", default=DEFAULT_CONFIG, show_default=True, metavar="FILE", help="The configuration."
)


def _existing(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str:
    if not value:
        return ""
    root = os.path.abspath(value)
    if not os.path.isdir(f"{root}/sys"):
        raise click.BadParameter(
            f"{value}: no sys folder in it; a root holds sys and proc, as `rocmwatch simulate` makes them"
        )
    return root


root_option: Callable[..., Any] = click.option(
    "--root",
    envvar="ROCMWATCH_ROOT",
    metavar="DIR",
    callback=_existing,
    help="Read DIR/sys and DIR/proc instead of the machine's own: a simulated or recorded node.",
)
