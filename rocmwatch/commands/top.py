"""`rocmwatch top`: the node's GPUs in a terminal, again and again; plain lines where there is none."""

from __future__ import annotations

import locale
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

import click

from rocmwatch.commands.options import config_option, duration, failing, root_option
from rocmwatch.errors import DaemonUnreachable, RocmwatchError
from rocmwatch.serve.wording import span

INTERVAL_SECONDS = 2.0
LEAST_INTERVAL_SECONDS = 0.2
PIPED_WIDTH = 120
NO_GPU = "no AMD GPU found here (amdgpu, on the PCI bus); `rocmwatch demo` shows rocmwatch on a simulated node"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen without a cursor, and back
_BEGIN, _END = "\x1b[?2026h\x1b[H", "\x1b[?2026l"  # from the corner on; terminals that know that show it all at once
_CLEAR_LINE, _CLEAR_REST = "\x1b[K", "\x1b[J"
_KEYS = {
    b"q": "quit",
    b"\x03": "quit",
    b"p": "partitions",
    b"?": "help",
    b"h": "help",
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"k": "up",
    b"j": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
}

Document = dict[str, Any]


class Documents(NamedTuple):
    """What is shown."""

    sample: Document
    status: Document | None = None
    trends: Document | None = None


Source = Callable[[], Documents]


@click.command()
@click.option(
    "--interval", callback=duration, default="2s", show_default=True, metavar="TIME", help="Time between two looks."
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many looks. [default: at q, or Ctrl-C]")
@click.option("--partitions", is_flag=True, help="With the partitions of each GPU.")
@click.option("--direct", is_flag=True, help="Read the driver's files here; do not ask a running daemon.")
@config_option
@root_option
def top(interval: float, count: int | None, partitions: bool, direct: bool, config_path: str, root: str) -> None:  # noqa: FBT001
    """The live view of the node's GPUs.

    Asks the daemon when one runs; reads for itself otherwise, and with --direct or --root. In a terminal it redraws
    itself, and ? shows the keys; otherwise it prints plain lines, look after look.

    Exit codes: 0 fine, 1 no GPU or nothing to be had, 2 usage.
    """
    if interval < LEAST_INTERVAL_SECONDS:
        raise click.BadParameter(f"the shortest is {LEAST_INTERVAL_SECONDS:g}s", param_hint="--interval")
    # Ctrl-C is how it ends
    with failing(), suppress(KeyboardInterrupt), _source(config_path, root, interval, direct=direct) as source:
        first = source()
        _need_a_gpu(first)
        if _is_a_terminal():
            _Screen(source, first, interval, count, partitions=partitions).run()
        else:
            _print(source, first, interval, count, partitions=partitions)


def _need_a_gpu(documents: Documents) -> None:
    if not documents.sample["gpus"]:
        raise RocmwatchError(NO_GPU)


def _is_a_terminal() -> bool:
    """Whether there is somebody at a terminal that can be drawn on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"", "dumb"}


# Where the documents come from


@contextmanager
def _source(config_path: str, root: str, interval: float, *, direct: bool) -> Iterator[Source]:
    if not (direct or root):
        from rocmwatch.commands.ask import daemon_address

        address = daemon_address(config_path)
        if _answers(address):
            yield lambda: _ask(address)
            return
    from rocmwatch.observe.sampler import Pace
    from rocmwatch.picture import Studio

    with closing(Studio(root, with_trends=True)) as studio:
        pace = max(1.0, interval)
        studio.sampler.pace = Pace(memory=interval, sensors=pace, deadline=min(1.0, interval))
        yield lambda: _read(studio)


def _answers(address: tuple[str, int]) -> bool:
    try:
        _ask(address)
    except DaemonUnreachable:
        return False
    return True


def _ask(address: tuple[str, int]) -> Documents:
    from rocmwatch.commands.ask import ask_json

    return Documents(
        ask_json(address, "/api/v1/snapshot", "rocmwatch/sample/1"),
        ask_json(address, "/api/v1/status", "rocmwatch/status/1"),
        ask_json(address, "/api/v1/trends?name=power_watts", "rocmwatch/trends/1"),
    )


def _read(studio: Any) -> Documents:
    from rocmwatch.serve.documents import sample_document, status_document
    from rocmwatch.serve.trends_document import Wish, trends_document

    view = studio.take(config_loaded_at=0)
    if not view.snapshot.listed:
        raise RocmwatchError("; ".join(view.snapshot.notes))
    wish = Wish(names=frozenset({"power_watts"}))
    status = status_document(view, view.snapshot.taken_at)
    return Documents(sample_document(view.snapshot), status, trends_document(view, wish))


# Without a terminal


def _print(source: Source, documents: Documents, interval: float, count: int | None, *, partitions: bool) -> None:
    """Look after look as plain lines, an empty one between two."""
    from rocmwatch.serve.screen import Wish, picture

    wish = Wish(width=PIPED_WIDTH, height=0, partitions=partitions, ascii=not _knows_blocks())
    looks = 0
    while True:
        for line in picture(*documents, wish).lines:
            click.echo(line.plain.rstrip())
        looks += 1
        if looks == count:
            return
        click.echo()
        sys.stdout.flush()
        time.sleep(interval)
        documents = source()


def _knows_blocks() -> bool:
    """Whether what is written may be more than ASCII: Python writes UTF-8 in the locale C, whose terminals may not."""
    codings = (sys.stdout.encoding or "ascii", locale.nl_langinfo(locale.CODESET))
    try:
        return all("█▁".encode(coding) for coding in codings)
    except (UnicodeEncodeError, LookupError):
        return False


# In a terminal


class _Screen:
    """The loop: look, draw, wait for a key, a new size of the window, or the next look."""

    def __init__(
        self, source: Source, first: Documents, interval: float, count: int | None, *, partitions: bool
    ) -> None:
        self._source = source
        self._interval = interval
        self._left = count
        self._next: Documents | None = first
        self._documents = first
        self._seen_at = time.monotonic()
        self._trouble = ""
        self._first = 0
        self._partitions, self._help = partitions, False
        self._rows = self._room = 0

    def run(self) -> None:
        """Until somebody ends it."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        stdin = sys.stdin.fileno()
        with _terminal(stdin, wake):
            due = time.monotonic()
            while True:
                if time.monotonic() >= due:
                    if self._left == 0:
                        return
                    self._look()
                    due = max(due + self._interval, time.monotonic())
                self._draw()
                ready, _, _ = select.select([stdin, woken], [], [], max(0.0, due - time.monotonic()))
                if woken in ready and _ends(os.read(woken, 4096)):
                    return
                if stdin in ready:
                    typed = os.read(stdin, 64)
                    if not typed or self._obey(typed):  # nothing: the terminal is gone
                        return

    def _look(self) -> None:
        if self._left is not None:
            self._left -= 1
        try:
            self._documents, self._next, self._trouble = self._next or self._source(), None, ""
            self._seen_at = time.monotonic()
        except RocmwatchError as error:  # a daemon or a driver that may be on its way back
            self._trouble = f"as it was {span(time.monotonic() - self._seen_at)} ago: {error}"

    def _draw(self) -> None:
        from rich.console import Console
        from rich.text import Text

        from rocmwatch.serve.screen import Wish, help_picture, picture

        width, height = _window()
        wish = Wish(width, height, self._first, self._partitions, not _knows_blocks())
        if self._help:
            lines = help_picture(wish).lines
        else:
            lines, self._rows, self._room = picture(*self._documents, wish)
        if self._trouble:
            trouble = Text(self._trouble, style="bold red", no_wrap=True, end="")
            trouble.truncate(width)
            lines = [trouble, *lines[1:]]
        console = Console(file=sys.stdout, width=width + 1, height=height, highlight=False, legacy_windows=False)
        drawn = []
        for line in lines:
            with console.capture() as captured:
                console.print(line, end="", soft_wrap=True)
            drawn.append(_CLEAR_LINE + captured.get())  # cleared first: behind a full line stands its last character
        if len(drawn) < height:
            drawn.append(_CLEAR_REST)
        sys.stdout.write(_BEGIN + "\n".join(drawn) + _END)
        sys.stdout.flush()

    def _obey(self, typed: bytes) -> bool:
        """What keys say. Returns whether it is over."""
        page = max(1, self._room - 1)
        steps = {"up": -1, "down": 1, "page up": -page, "page down": page}
        for key in _split(typed):
            word = _KEYS.get(key, "")
            if word == "quit":
                return True
            if word == "partitions":
                self._partitions = not self._partitions
            elif word == "help":
                self._help = not self._help
            elif word in steps:
                self._first = max(0, min(self._first + steps[word], self._rows - self._room))
        return False


def _window() -> tuple[int, int]:
    """Columns and lines: of the terminal itself, whatever an old $COLUMNS says."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size if all(size) else shutil.get_terminal_size()  # a serial line does not know its size


def _split(typed: bytes) -> Iterator[bytes]:
    """The keys in what a terminal sent at once."""
    while typed:
        key = next((key for key in _KEYS if typed.startswith(key)), typed[:1])
        yield key
        typed = typed[len(key) :]


def _ends(signals: bytes) -> bool:
    return bool({signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}.intersection(signals))


@contextmanager
def _terminal(descriptor: int, wake: int) -> Iterator[None]:
    """The terminal as the screen wants it; as it was, however this ends, and while the program is stopped."""
    before = termios.tcgetattr(descriptor)

    def enter() -> None:
        tty.setcbreak(descriptor)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def leave() -> None:
        with suppress(OSError, termios.error):  # the terminal may be gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

    def stop(_number: int, _frame: object) -> None:
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        enter()

    handlers = {
        signal.SIGTSTP: stop,
        signal.SIGWINCH: lambda *_: None,
        signal.SIGTERM: lambda *_: None,
        signal.SIGHUP: lambda *_: None,
        signal.SIGQUIT: lambda *_: None,
    }
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    woken_before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    enter()
    try:
        yield
    finally:
        leave()
        signal.set_wakeup_fd(woken_before)
        for number, handler in old.items():
            signal.signal(number, handler)
