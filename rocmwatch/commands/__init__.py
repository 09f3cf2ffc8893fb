"""The command line: `rocmwatch COMMAND`. One file a group of commands, imported when it is called.

Exit codes: 0 fine, 1 found something or failed, 2 usage, 78 bad configuration.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Any

import click

# command -> (module, attribute, what it does). The line is here so that --help imports none of them.
COMMANDS = {
    "run": ("run", "run", "The daemon: samples, and serves Prometheus and people."),
    "sample": ("sample", "sample", "One reading of the node's GPUs."),
    "ps": ("ps", "ps", "Who holds the GPUs' memory, and by what right."),
    "top": ("top", "top", "The live view of the node's GPUs."),
    "status": ("status", "status", "How the daemon and its GPUs are."),
    "record": ("record", "record", "Records the node's files, scrubbed, to go with a report."),
    "check-config": ("check_config", "check_config", "Checks a configuration, all of it at once."),
    "simulate": ("simulate", "simulate", "Makes a simulated node, as a file tree that moves."),
    "demo": ("demo", "demo", "A simulated node, and the daemon watching it."),
}


class _Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"rocmwatch.commands.{module}"), attribute)
        assert isinstance(command, click.Command)  # noqa: S101  # a slip in the table above
        return command

    def main(self, *args: Any, **options: Any) -> Any:
        _settle_streams()
        try:
            return super().main(*args, **options)
        except OSError as error:  # a full disk, say; a pipe that nobody reads is click's to handle
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer would fail once more at the end
            click.echo(f"rocmwatch: {error}", err=True)
            sys.exit(1)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rocmwatch", prog_name="rocmwatch")
def main() -> None:
    """Watches the VRAM of AMD GPUs from the driver's own files.

    On a machine without an AMD GPU, `rocmwatch demo` shows it at work on a simulated node.
    """


def _settle_streams() -> None:
    """Makes the standard streams safe to use, however we were called."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # a closed one: else the next file takes its place
        os.set_inheritable(descriptor, True)  # noqa: FBT003
    os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name) or open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ° gets a question mark
        setattr(sys, name, stream)
