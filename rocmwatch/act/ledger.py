"""What was decided, why, and what came of it: an SQLite file that survives whatever happens to us.

An operation is reserved, and that is on the disk, before anything is done; its outcome is added afterwards. One that
has no outcome was interrupted. The file is opened and never made on the way: without it nobody knows what was tried
already, so that nothing is done. It is made by hand, or by the installation.

    meta        which schema this is
    operations  one row each: reserved, and later its result
    audit       each step of an operation, as it happened
    floors      the idle floor of each GPU, by mode and driver

Journal mode WAL and synchronous=FULL: a commit is on the disk when it returns. Where root works with the file, SQLite's
files beside it belong to whoever owns the folder, so that the service can go on with them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocmwatch.errors import RocmwatchError
from rocmwatch.model import frozen

SCHEMA = 1
BUSY_SECONDS = 2.0
MOST_OPERATIONS = 10_000
MOST_AUDIT_ROWS = 50_000
RESULTS = ("done", "failed", "refused", "deferred", "interrupted", "dry_run")
_SUFFIXES = ("", "-wal", "-shm")
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE operations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    operation TEXT NOT NULL UNIQUE,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    cause TEXT,
    mode TEXT NOT NULL,
    phase TEXT,
    result TEXT,
    reason TEXT,
    versions TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL
) STRICT;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    operation TEXT NOT NULL,
    at REAL NOT NULL,
    event TEXT NOT NULL,
    facts TEXT NOT NULL
) STRICT;
CREATE INDEX audit_of_operation ON audit (operation);
CREATE TABLE floors (
    pci TEXT NOT NULL,
    mode TEXT NOT NULL,
    driver TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (pci, mode, driver)
) STRICT;
"""


class LedgerUnusable(RocmwatchError):
    """There is no ledger to be trusted, so nothing may be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that was done, or tried.

    Attributes:
        operation: Its id.
        action: E.g. `gc`.
        subject: What it was done to.
        trigger: What made it happen; `None` for a person's order.
        mode: `observe`, `dry-run`, `enforce`, or `manual`.
        phase: How far it came.
        result: A word of RESULTS; `None` while it runs, and of one that was interrupted.
        reason: Why it came out so, or was done.
        versions: Of what was at work.
        started_at: Unix seconds; `ended_at` likewise.
    """

    operation: str
    action: str
    subject: str
    trigger: str | None = None
    mode: str = "manual"
    phase: str | None = None
    result: str | None = None
    reason: str | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    started_at: float = 0.0
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry of the audit."""

    operation: str
    at: float
    event: str
    facts: Mapping[str, object]


class Ledger:
    """An open ledger. One thread at a time."""

    def __init__(self, path: str) -> None:
        """Opens the file that is there.

        Raises:
            LedgerUnusable: When there is none, or it is not to be trusted.
        """
        self.path = path
        if not os.path.exists(path):
            raise LedgerUnusable(
                f"{path}: there is no ledger, and without one nothing is done. "
                f"`rocmwatch breaker reset --init --reason TEXT` makes one"
            )
        if os.path.islink(path):
            raise LedgerUnusable(f"{path}: is a link, and whoever made it may want another file to be written")
        with self._told():
            self._database = _connect(path)
        try:
            self._check()
            self._give_away()
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def create(cls, path: str, at: float) -> Ledger:
        """Makes a new ledger. One that is there is put aside, with the moment behind its name.

        Raises:
            LedgerUnusable: When it cannot be made.
        """
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            for suffix in _SUFFIXES:
                if os.path.exists(path + suffix):
                    os.replace(path + suffix, f"{path}.{int(at)}{suffix}")
            fresh = f"{path}.new"
            Path(fresh).unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(fresh)) as database:
                database.executescript(_TABLES)
                facts = (("schema", str(SCHEMA)), ("created_at", str(at)))
                database.executemany("INSERT INTO meta VALUES (?, ?)", facts)
                database.commit()
            os.chmod(fresh, 0o640)
            os.replace(fresh, path)
        except (OSError, sqlite3.Error) as error:
            raise LedgerUnusable(f"{path}: cannot be made: {error}") from error
        return cls(path)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def __enter__(self) -> Ledger:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self.close()

    @property
    def created_at(self) -> float:
        """When it was made, Unix seconds: what was before is not known."""
        with self._told():
            row = self._database.execute("SELECT value FROM meta WHERE key = 'created_at'").fetchone()
        return float(row[0]) if row else 0.0

    # Operations

    def reserve(self, operation: Operation) -> str:
        """Writes an operation down before it begins. When this returns it is on the disk.

        Returns:
            Its id.

        Raises:
            LedgerUnusable: When it could not be written: then it must not begin.
        """
        name = operation.operation or uuid.uuid4().hex
        with self._told(), self._database:
            self._database.execute(
                "INSERT INTO operations (operation, action, subject, cause, mode, phase, reason, versions, started_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    name,
                    operation.action,
                    operation.subject,
                    operation.trigger,
                    operation.mode,
                    operation.phase,
                    operation.reason,
                    json.dumps(dict(operation.versions)),
                    operation.started_at,
                ),
            )
            self._trim("operations", MOST_OPERATIONS)
        self._give_away()
        return name

    def note(self, operation: str, at: float, event: str, *, phase: str | None = None, **facts: object) -> None:
        """Adds a step to the audit, and says how far the operation is.

        Raises:
            LedgerUnusable: When it could not be written.
        """
        with self._told(), self._database:
            row = (operation, at, event, json.dumps(facts, default=str))
            self._database.execute("INSERT INTO audit (operation, at, event, facts) VALUES (?, ?, ?, ?)", row)
            if phase is not None:
                self._database.execute("UPDATE operations SET phase = ? WHERE operation = ?", (phase, operation))
            self._trim("audit", MOST_AUDIT_ROWS)

    def finish(self, operation: str, at: float, result: str, reason: str | None = None) -> None:
        """Writes down what came of an operation.

        Raises:
            LedgerUnusable: When it could not be written.
        """
        if result not in RESULTS:
            raise ValueError(f"no result: {result}")
        with self._told(), self._database:
            self._database.execute(
                "UPDATE operations SET result = ?, reason = coalesce(?, reason), ended_at = ? WHERE operation = ?",
                (result, reason, at, operation),
            )

    def operations(self, limit: int = MOST_OPERATIONS) -> tuple[Operation, ...]:
        """The operations, the latest first."""
        query = (
            "SELECT operation, action, subject, cause, mode, phase, result, reason, versions, started_at, ended_at"
            " FROM operations ORDER BY number DESC LIMIT ?"
        )
        with self._told():
            rows = self._database.execute(query, (limit,)).fetchall()
            return tuple(_operation(row) for row in rows)

    def unfinished(self) -> tuple[Operation, ...]:
        """Those that have no outcome: one may be at work, the others were interrupted."""
        return tuple(operation for operation in self.operations() if operation.result is None)

    def audit(self, operation: str) -> tuple[Step, ...]:
        """The steps of an operation, in their order."""
        query = "SELECT operation, at, event, facts FROM audit WHERE operation = ? ORDER BY number"
        with self._told():
            rows = self._database.execute(query, (operation,)).fetchall()
            return tuple(Step(operation=name, at=at, event=event, facts=_facts(text)) for name, at, event, text in rows)

    # Floors

    def floors(self) -> Mapping[tuple[str, str, str], int]:
        """The idle floors, bytes by (PCI address, mode, driver)."""
        with self._told():
            rows = self._database.execute("SELECT pci, mode, driver, bytes FROM floors").fetchall()
        return frozen({(pci, mode, driver): size for pci, mode, driver, size in rows})

    def keep_floors(self, floors: Mapping[tuple[str, str, str], int]) -> None:
        """Writes the idle floors down.

        Raises:
            LedgerUnusable: When they could not be written.
        """
        with self._told(), self._database:
            rows = [(*key, size) for key, size in floors.items()]
            self._database.executemany("INSERT OR REPLACE INTO floors VALUES (?, ?, ?, ?)", rows)

    # The file

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Says in one line what is wrong with the file."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnusable(f"{self.path}: {error}") from error

    def _check(self) -> None:
        with self._told():
            (verdict,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise LedgerUnusable(f"{self.path}: {verdict}")
            row = self._database.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        found = row[0] if row else "none"
        if found != str(SCHEMA):
            raise LedgerUnusable(f"{self.path}: its schema is {found}, this rocmwatch knows {SCHEMA}")

    def _trim(self, table: str, most: int) -> None:
        """Forgets the oldest rows; an operation that has no outcome is kept."""
        kept = " AND result IS NOT NULL" if table == "operations" else ""
        self._database.execute(
            f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?{kept}",  # noqa: S608  # our own names
            (most,),
        )

    def _give_away(self) -> None:
        """The files belong to whoever owns the folder."""
        if os.geteuid() != 0:
            return
        owner = os.stat(os.path.dirname(self.path) or ".")
        for suffix in _SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.chown(self.path + suffix, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("BEGIN IMMEDIATE")  # or it is read-only, or somebody holds it
        database.rollback()
    except BaseException:
        database.close()
        raise
    return database


def _operation(row: tuple[object, ...]) -> Operation:
    name, action, subject, cause, mode, phase, result, reason, versions, started_at, ended_at = row
    return Operation(
        operation=str(name),
        action=str(action),
        subject=str(subject),
        trigger=cause,  # type: ignore[arg-type]
        mode=str(mode),
        phase=phase,  # type: ignore[arg-type]
        result=result,  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
        versions=frozen({str(key): str(value) for key, value in _facts(str(versions)).items()}),
        started_at=float(started_at),  # type: ignore[arg-type]
        ended_at=ended_at,  # type: ignore[arg-type]
    )


def _facts(text: str) -> Mapping[str, object]:
    try:
        facts = json.loads(text)
    except ValueError:
        return frozen({})
    return frozen(facts) if isinstance(facts, dict) else frozen({})
