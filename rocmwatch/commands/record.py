"""`rocmwatch record`."""

from __future__ import annotations

import platform
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from rocmwatch.commands.options import complain, root_option
from rocmwatch.commands.sample import NO_GPU
from rocmwatch.errors import RocmwatchError

if TYPE_CHECKING:
    from rocmwatch.observe.record import Recording
    from rocmwatch.observe.record_archive import Archive
    from rocmwatch.observe.record_file import OutFile
    from rocmwatch.observe.record_survey import Plan

KEYS = 3  # a replacement may, by chance, hold what something else was called
SHOWN = 5
REFUSED, PARTLY = 3, 4
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
REPLACED = (
    "serial numbers, unique ids, the boot id and the host's name; names of programs and control groups, and command "
    "lines, but for words that say nothing"
)


@click.command()
@click.argument("out", metavar="OUT.tar.gz", type=click.Path(), required=False)
@click.option("--list", "list_only", is_flag=True, help="Say what would be read, and read nothing of it.")
@click.option("--force", is_flag=True, help="Replace OUT.tar.gz if it is there.")
@click.option("--key", hidden=True, help="Make the same replacements each time: for tests. Whoever knows it can guess.")
@root_option
def record(out: str | None, list_only: bool, force: bool, key: str | None, root: str) -> None:  # noqa: FBT001
    """Record the node's files into OUT.tar.gz, for a report: what tells whose node it is, is replaced.

    It reads a fixed list of files, and none that does something when read; it wakes no GPU. Every reading command takes
    the archive: `rocmwatch sample --root OUT.tar.gz`. Run it as root: the table of free blocks and the processes of
    others are not to be had otherwise.

    Exit codes: 0 fine, 1 nothing written, or no GPU found, 2 usage, 3 refused, 4 written, but something could not be
    read.
    """
    from rocmwatch.observe.privilege import SAMPLING, allow_only
    from rocmwatch.observe.record import Recorder
    from rocmwatch.observe.record_file import NotWritten, Refused, out_file

    if out is None and not list_only:
        raise click.UsageError("Missing argument 'OUT.tar.gz'.")
    try:
        with _interrupted_by_signals():
            # What reads has two capabilities and no other; this process keeps its own: it has a file to write.
            allow_only(SAMPLING)
            if out is None or list_only:
                with closing(Recorder(root)) as recorder:
                    _list(recorder.survey())
                return
            with out_file(out, force=force) as file, closing(Recorder(root)) as recorder:
                plan = recorder.survey()
                _announce(plan, out)
                recording = recorder.record(plan, "" if root else platform.node())
                archive = _write(recording, file, key, of_tree=bool(root))
                file.publish()
    except Refused as error:
        complain(error)
        sys.exit(REFUSED)
    except NotWritten as error:
        complain(error)
        sys.exit(1)
    except RocmwatchError as error:
        complain(RocmwatchError(f"{error}; nothing was written"))
        sys.exit(1)
    except KeyboardInterrupt:
        complain(RocmwatchError("interrupted; nothing was written"))
        sys.exit(1)
    _conclude(recording, archive, out)


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP do what Ctrl-C does, so that they leave nothing behind either."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _list(plan: Plan) -> None:
    from rocmwatch.observe.record_archive import is_scrubbed
    from rocmwatch.serve.wording import printable

    for wanted in sorted(plan.wanted):
        notes = ["scrubbed"] if is_scrubbed(wanted.path, wanted.item.rule) else []
        notes += ["of an awake GPU only"] if wanted.item.awake else []
        click.echo(printable(f"/{wanted.path}") + (f"  ({', '.join(notes)})" if notes else ""))


def _announce(plan: Plan, out: str) -> None:
    processes = f"{len(plan.pids)} process{'' if len(plan.pids) == 1 else 'es'}"
    click.echo(f"Reading {len(plan.wanted)} files of {_count(plan.gpus)} and {processes}; --list names them.")
    click.echo(f"Replaced in the archive: {REPLACED}.")
    click.echo(f"Writing {out}.")


def _count(gpus: tuple[str, ...]) -> str:
    return f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"


def _write(recording: Recording, file: OutFile, key: str | None, *, of_tree: bool) -> Archive:
    """Packs and writes it, and searches what the disk has of it for what was replaced."""
    from rocmwatch.observe.clock import SystemClock
    from rocmwatch.observe.record_archive import About, build, leaks
    from rocmwatch.observe.record_file import NotWritten
    from rocmwatch.serve.wording import rfc3339

    about = About(version("rocmwatch"), rfc3339(SystemClock().unix()), of_tree)
    found: list[str] = []
    for _ in range(1 if key else KEYS):
        archive = build(recording, key.encode() if key else secrets.token_bytes(32), about)
        found = leaks(archive, file.write(archive.data))
        if not found:
            return archive
    paths = ", ".join(f"/{path}" for path in found[:SHOWN])
    raise NotWritten(
        f"nothing was written: in {len(found)} of the files there is still something that should have been replaced "
        f"({paths}). Please report this, without the files."
    )


def _conclude(recording: Recording, archive: Archive, out: str) -> None:
    """Says what there is now, and ends with the exit code for it."""
    from rocmwatch.observe.record import FAILED
    from rocmwatch.serve.wording import printable, size

    failed = [entry for entry in recording.entries if entry.outcome == FAILED]
    click.echo(f"{out}: {size(len(archive.data))}, {len(archive.rules)} files; nothing that was replaced is in it.")
    for entry in failed[:SHOWN]:
        click.echo(f"  /{printable(entry.path)}: {entry.why}")
    if len(failed) > SHOWN:
        click.echo(f"  and {len(failed) - SHOWN} more that could not be read: manifest.json names them")
    click.echo(f"Look into it before you send it: tar -xzf {out} -O manifest.json. As a node: --root {out}")
    if not recording.gpus:
        complain(RocmwatchError(NO_GPU))
        sys.exit(1)
    if recording.incomplete:
        complain(RocmwatchError("not everything could be read (is this root?); manifest.json says what and why"))
        sys.exit(PARTLY)
