"""What several commands share, said once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import click

from rocmwatch.errors import ConfigError, RocmwatchError

Reading = TypeVar("Reading")
DEFAULT_CONFIG = "/etc/rocmwatch/rocmwatch.yaml"

config_option: Callable[..., Any] = click.option(
    "--config", "config_path", default=DEFAULT_CONFIG, show_default=True, metavar="FILE", help="The configuration."
)


def complain(error: Exception) -> None:
    """Says on standard error what went wrong: one line, or one a problem of a configuration."""
    for line in error.problems if isinstance(error, ConfigError) else (str(error),):
        click.echo(f"rocmwatch: {line}", err=True)


@contextmanager
def failing() -> Iterator[None]:
    """Ends the command with what went wrong in one line, and the exit code for it."""
    try:
        yield
    except ConfigError as error:
        complain(error)
        sys.exit(os.EX_CONFIG)
    except RocmwatchError as error:
        complain(error)
        sys.exit(1)


def show_each(
    readings: Generator[Reading, None, None], show: Callable[[Reading], None], again_seconds: float | None
) -> None:
    """Shows the first reading; or one after the other, until Ctrl-C.

    Args:
        readings: Closed at the end.
        show: What to do with each.
        again_seconds: From one to the next; `None` for the first only.
    """
    with closing(readings), failing():
        try:
            for reading in readings:
                show(reading)
                if again_seconds is None:
                    break
                time.sleep(again_seconds)
        except KeyboardInterrupt:
            if again_seconds is None:
                raise


def duration(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """The callback of an option like `--for 60s`: seconds, as the configuration writes them."""
    from rocmwatch.config.quantities import parse_duration

    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _existing(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str:
    if not value:
        return ""
    root = _unpacked(ctx, value) if os.path.isfile(value) and value.endswith(".tar.gz") else os.path.abspath(value)
    if not os.path.isdir(f"{root}/sys"):
        raise click.BadParameter(
            f"{value}: no sys folder in it; a root holds sys and proc, as `rocmwatch simulate` makes them"
        )
    return root


def _unpacked(ctx: click.Context, archive: str) -> str:
    """A record, unpacked into a folder that goes when the command ends."""
    import tempfile

    from rocmwatch.observe.record_unpack import NoRecord, unpack

    folder = ctx.with_resource(tempfile.TemporaryDirectory(prefix="rocmwatch-"))
    try:
        unpack(archive, folder)
    except (NoRecord, OSError) as error:
        raise click.BadParameter(str(error)) from None
    return folder


root_option: Callable[..., Any] = click.option(
    "--root",
    envvar="ROCMWATCH_ROOT",
    metavar="DIR",
    callback=_existing,
    help="Read DIR/sys and DIR/proc instead of the machine's own: a simulated node, or what `record` has written.",
)
