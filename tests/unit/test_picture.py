"""What is published, and that a picture is judged before it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from watching import Watcher, node, watch

from rocmwatch.model import View
from rocmwatch.picture import Publisher, judged
from rocmwatch.simulate import SimulatedNode

__all__ = ["node", "watch"]


def view(watcher: Watcher) -> View:
    return View(
        snapshot=judged(watcher.tick()), version="0", started_at=0.0, hostname="node", root="", config_loaded_at=0.0
    )


def test_before_the_first_picture_there_is_none() -> None:
    assert None is Publisher().current()


def test_what_was_published_last_is_what_is_seen(
    node: Callable[..., SimulatedNode], watch: Callable[..., Watcher]
) -> None:
    publisher = Publisher()
    watcher = watch(node("mi300x").root)
    first, second = view(watcher), view(watcher)
    publisher.publish(first)
    publisher.publish(second)

    assert publisher.current() is second
    assert (1, 2) == (first.snapshot.sequence, second.snapshot.sequence)


def test_a_table_of_blocks_is_judged_and_nothing_else_changes(
    node: Callable[..., SimulatedNode], watch: Callable[..., Watcher]
) -> None:
    snapshot = watch(node("mi300x", gpus=2).root).tick()
    seen = judged(snapshot)

    for before, after in zip(snapshot.gpus, seen.gpus, strict=True):
        assert before.free_blocks is not None
        assert after.fragmentation is not None
        assert before.free_blocks.free_bytes == after.fragmentation.free_bytes
        assert before == replace(after, fragmentation=None)
    assert snapshot == replace(seen, gpus=snapshot.gpus)


def test_without_a_table_there_is_nothing_to_judge(
    node: Callable[..., SimulatedNode], watch: Callable[..., Watcher]
) -> None:
    snapshot = watch(node("mi300x").root).tick()
    blind = replace(snapshot, gpus=tuple(replace(reading, free_blocks=None) for reading in snapshot.gpus))

    assert blind == judged(blind)
