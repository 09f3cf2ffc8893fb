"""Records a node: reads what the survey found, file by file, whatever the node does meanwhile."""

from collections.abc import Iterator
from typing import NamedTuple

from rocmwatch.kernel.dmem import parse_dmem
from rocmwatch.observe.record_hands import DEADLINE_SECONDS, DIED, HANGS, NOBODY, Hands
from rocmwatch.observe.record_reader import ASLEEP, FILE, ONCE, TOO_LARGE, VANISHED
from rocmwatch.observe.record_survey import Plan, Survey, Wanted
from rocmwatch.observe.record_table import FORBIDDEN, HOST, KERNEL

READ, ABSENT, FAILED, SKIPPED = "read", "absent", "failed", "skipped"
FORBIDDEN_WHY = "forbidden"
STALLED = "another read of the same hangs"
FULL = "the record is large enough"
LARGEST_RECORD = 256 << 20
_SKIPS = frozenset({ASLEEP, TOO_LARGE, NOBODY})
_VRAM_FILE = "dmem.current"
_INCOMPLETE = frozenset({HANGS, DIED, STALLED, NOBODY, FULL, "EACCES"})


class Entry(NamedTuple):
    """What came of one path.

    Attributes:
        path: Below the root.
        outcome: READ, ABSENT, FAILED or SKIPPED.
        rule: What the bytes are; see record_table.py.
        data: The bytes that were read.
        why: The errno's name of what failed, or why it was skipped.
    """

    path: str
    outcome: str
    rule: str = KERNEL
    data: bytes = b""
    why: str = ""


class Recording(NamedTuple):
    """A node.

    Attributes:
        entries: By path.
        links: Path to what it says.
        folders: Those that are there, whether or not there is something in them.
        gpus: PCI addresses.
    """

    entries: tuple[Entry, ...]
    links: dict[str, str]
    folders: tuple[str, ...]
    gpus: tuple[str, ...]

    @property
    def incomplete(self) -> tuple[Entry, ...]:
        """What could not be had for a reason that another try, or more rights, might mend."""
        return tuple(entry for entry in self.entries if entry.why in _INCOMPLETE)


class Recorder:
    """Looks around, then reads."""

    def __init__(self, root: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._hands = Hands(root, deadline_seconds)

    def close(self) -> None:
        """Ends the readers; one that hangs is not waited for."""
        self._hands.close()

    def survey(self) -> Plan:
        """What there is to read."""
        return Survey(self._hands).plan()

    def record(self, plan: Plan, host: str = "") -> Recording:
        """Reads it.

        Args:
            plan: What there is.
            host: The name of this machine, if it is known beside its file.
        """
        entries = list(self._read_all(plan.wanted))
        entries += [Entry(path, ABSENT) for path in plan.absent]
        entries += [Entry(path, FAILED, why=why) for path, why in plan.failed.items()]
        entries += [Entry(path, SKIPPED, why=FORBIDDEN_WHY) for path in plan.forbidden]
        if host and not any(entry.rule == HOST and entry.outcome == READ for entry in entries):
            entries.append(Entry("", SKIPPED, HOST, host.encode("utf-8", "surrogateescape")))
        return Recording(tuple(sorted(entries)), plan.links, plan.folders, plan.gpus)

    def _read_all(self, wanted: tuple[Wanted, ...]) -> Iterator[Entry]:
        hanging: set[str] = set()
        without: set[str] = set()  # control groups without VRAM
        total = 0
        for one in wanted:
            if one.group in without or FORBIDDEN.fullmatch(one.path):
                continue
            if one.group in hanging or total > LARGEST_RECORD:
                why = STALLED if one.group in hanging else FULL
                yield Entry(one.path, SKIPPED, one.item.rule, why=why)
                continue
            why, data = self._hands.ask(ONCE if one.item.awake else FILE, one.path, one.guards)
            if why == HANGS:
                hanging.add(one.group)
            if one.path.endswith(f"/{_VRAM_FILE}") and not why and not any(parse_dmem(data).values()):
                without.add(one.group)
                continue
            total += len(data or b"")
            yield _entry(one, why, data)


def _entry(one: Wanted, why: str, data: bytes | None) -> Entry:
    rule = one.item.rule
    if not why:
        return Entry(one.path, READ, rule, data or b"")
    if why in VANISHED:
        return Entry(one.path, ABSENT, rule)
    return Entry(one.path, SKIPPED if why in _SKIPS else FAILED, rule, why=why)
