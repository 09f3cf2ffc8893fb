"""`rocmwatch simulate`."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rocmwatch.simulate import KERNELS, MODELS, SCENARIOS

if TYPE_CHECKING:
    from rocmwatch.simulate import Model, SimulatedNode

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHORTEST_SECONDS = 0.01


scenario_option: Callable[..., Any] = click.option(
    "--scenario",
    type=click.Choice(list(SCENARIOS)),
    default="healthy",
    show_default=True,
    metavar="NAME",
    help="What happens. " + " ".join(f"{name}: {one.summary}." for name, one in SCENARIOS.items()),
)


def _seconds(_ctx: click.Context, _parameter: click.Parameter, value: str) -> float:
    from rocmwatch.config.quantities import parse_duration

    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds < _SHORTEST_SECONDS:
        raise click.BadParameter(f"{value} is too short; 10ms is the shortest")
    return seconds


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--model", type=click.Choice(list(MODELS)), default="mi300x", show_default=True, help="The GPUs' model.")
@click.option("--kernel", type=click.Choice(list(KERNELS)), help="What drives them. [default: the model's own]")
@click.option("--gpus", type=click.IntRange(min=1), help="How many. [default: as many as such a node has]")
@scenario_option
@click.option("--interval", callback=_seconds, default="1s", show_default=True, help="Time between two movements.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed, the same values.")
def simulate(  # noqa: PLR0913, PLR0917  # click calls it, by names
    folder: str, model: str, kernel: str | None, gpus: int | None, scenario: str, interval: float, seed: int
) -> None:
    """Make a simulated node in DIR, a file tree laid out as the kernel's, and keep it moving.

    DIR is new, empty, or an earlier simulated node, which is replaced. Stops at Ctrl-C or SIGTERM; the files stay.
    """
    from rocmwatch.simulate import SimulatedNode
    from rocmwatch.simulate.node import NotOurs

    try:
        node = SimulatedNode(folder, model, gpus or len(MODELS[model].pci), scenario, seed, kernel)
    except ValueError as error:
        raise _Refused(str(error)) from None
    with _signals() as stop:
        try:
            node.create()
        except (NotOurs, OSError) as error:
            raise _Refused(str(error)) from None
        with node:
            _explain(node, interval)
            node.run(interval, stop)


class _Refused(click.ClickException):
    """One line, and the exit code for a wrong call."""

    exit_code = 2


def _explain(node: SimulatedNode, interval: float) -> None:
    model = node.model
    modes = f" in {model.partitioning.compute} and {model.partitioning.memory}" if model.partitioning else ""
    root = shlex.quote(node.root)
    click.echo(f"A simulated node: {len(node.places)} x {model.product}{modes}, {_system(model)}.")
    click.echo(f"Its files are {root}/sys and {root}/proc, and move every {interval:g} s. To look at it:")
    click.echo(f"  rocmwatch sample --root {root}")
    click.echo(f"  rocmwatch run --root {root}")
    click.echo("Ctrl-C stops it; the files stay.")


def _system(model: Model) -> str:
    kernel = model.kernel
    return f"Linux {kernel.release}" + (f" with ROCm's driver {kernel.driver_version}" if kernel.driver_version else "")


class _Signals:
    """Waits for a signal to stop, which is blocked meanwhile: no step is interrupted half-way."""

    def wait(self, timeout: float, /) -> bool:
        received = signal.sigtimedwait(_SIGNALS, max(0.0, timeout))
        return received is not None and received.si_signo in _SIGNALS  # it is neither after Ctrl-Z and fg


@contextmanager
def _signals() -> Iterator[_Signals]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield _Signals()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
