"""What was spent on which dataset, and what is left: a SQLite file that may over-count but never
under-counts.

Every spend is checked against the limit and written in one transaction, before any noise is drawn.
A dataset's limit is in pure epsilon or in rho, and so is its account: under a limit in rho, an
epsilon counts as epsilon^2/2; under one in epsilon, a cost in rho is refused. All costs of a
dataset are for one unit of privacy: those for others do not add up.

The file is never changed where it stands. It is read whole, changed in memory, and a new one takes
its place at once; so it needs no journal beside it, and means the same under whatever name it is
found.
"""

import errno
import fcntl
import os
import re
import shlex
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Literal, final

from noisewise.curator.names import looks, plain_name
from noisewise.errors import BudgetExceeded, LedgerError
from noisewise.files import put_in_place
from noisewise.mechanism.privacy import DIGITS, Cost, compose, exact_epsilon, remaining, text

APPLICATION_ID = 0x4E5A4C47
BUSY_SECONDS = 60.0
NEXT = "-next"
"""Ends the name of the file that is to take the ledger's place. A killed process may leave one,
which nobody reads.
"""
_MAGIC = b"SQLite format 3\0"
_SQLITE_LOCKS = (512, 0x40000000)
"""How many bytes SQLite locks, and from where on: whoever changes the file through SQLite must be
done before we begin.
"""
_SCHEMA = """
CREATE TABLE limits (position INTEGER PRIMARY KEY, dataset TEXT NOT NULL, amount TEXT NOT NULL, at TEXT NOT NULL,
                     currency TEXT NOT NULL DEFAULT 'epsilon');
CREATE TABLE spends (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, amount TEXT NOT NULL,
                     at TEXT NOT NULL, purpose TEXT NOT NULL, currency TEXT NOT NULL DEFAULT 'epsilon',
                     unit TEXT NOT NULL DEFAULT '');
CREATE TRIGGER spends_stay BEFORE DELETE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never deleted'); END;
"""  # noqa: E501
_HOLD = (
    "CREATE TRIGGER spends_hold BEFORE UPDATE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is "
    "never changed'); END"
)
_VERSION = 4
"""Format 3 had the same tables, but was changed where it stands, with a journal beside it."""
_UNIT = re.compile(r"(replace_one|add_remove|move), [0-9]+ per person(?=\)$)")
_FROM_1 = "".join(
    f"ALTER TABLE {table} RENAME COLUMN epsilon TO amount;ALTER TABLE {table} ADD COLUMN currency "
    "TEXT NOT NULL DEFAULT 'epsilon';"
    for table in ("limits", "spends")
)


@final
@dataclass(frozen=True, slots=True)
class Account:
    """One dataset's budget. `limit` is None where none was set."""

    dataset: str
    limit: Cost | None
    spent: Decimal
    """In the limit's currency."""
    releases: int

    @property
    def left(self) -> Decimal:
        return remaining(self.limit.amount, self.spent) if self.limit is not None else Decimal(0)


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history: a limit that was set, or a release that was paid for."""

    at: str
    dataset: str
    what: str
    cost: Cost
    spend: str | None


@final
@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger file. Opening it checks nothing; every method does."""

    path: Path

    def owns(self, path: Path) -> bool:
        """Whether SQLite would take the path for a part of the ledger, and might delete it."""
        own = self.path.resolve()
        return path.resolve() in [
            own.with_name(own.name + end) for end in ("", NEXT, "-journal", "-wal", "-shm")
        ]

    def set_limit(self, dataset: str, limit: Cost) -> Account:
        """Set what may ever be spent on a dataset in all, creating the file if there is none. A
        limit of 0 freezes it.
        """
        amount = _written(limit) if limit.amount else "0"
        if not os.path.lexists(self.path):
            plain_name(dataset)
            self._create()
        with self._transaction() as connection:
            name = self._name(connection, dataset)
            last = self._limit(connection, name)
            # nothing is nothing in either
            currency = last.currency if last is not None and not limit.amount else limit.currency
            connection.execute(
                "INSERT INTO limits (dataset, currency, amount, at) VALUES (?, ?, ?, ?)",
                (name, currency, amount, _now()),
            )
            return self._account(connection, name)

    def check(self, dataset: str, cost: Cost, unit: str) -> Account:
        """Refuse a cost that would not fit now; `spend` decides for good. The unit says for which
        neighbours the cost holds.
        """
        _written(cost)
        with self._reading("r+b") as connection:  # one that may not be written is found out here
            return self._afford(connection, self._name(connection, dataset), cost, unit)

    def spend(self, dataset: str, cost: Cost, unit: str, purpose: str) -> str:
        """Record the cost, or raise and record nothing. Returns the spend's id once it is safely on
        disk.
        """
        spend, amount = str(uuid.uuid4()), _written(cost)
        with self._transaction() as connection:
            name = self._name(connection, dataset)
            self._afford(connection, name, cost, unit)
            connection.execute(
                "INSERT INTO spends (id, dataset, currency, amount, at, purpose, unit) VALUES (?, "
                "?, ?, ?, ?, ?, ?)",
                (spend, name, cost.currency, amount, _now(), purpose, unit),
            )
        return spend

    def accounts(self) -> list[Account]:
        """Every dataset that the ledger knows, by name."""
        with self._reading() as connection:
            return [self._account(connection, name) for name in self._names(connection)]

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Everything that was set or spent, oldest first."""
        with self._reading() as connection:
            known = self._names(connection)
            name = None if dataset is None else self._name(connection, dataset)
            if name is not None and name not in known:
                raise LedgerError(
                    f"there is no dataset {dataset!r} in {self.path}; known are: "
                    f"{', '.join(known)}."
                )
            rows = connection.execute(
                "SELECT at, dataset, 'limit', currency, amount, NULL, 0 AS kind, position FROM "
                "limits "
                "UNION ALL SELECT at, dataset, purpose, currency, amount, id, 1, position FROM "
                "spends ORDER BY at, kind, position"
            ).fetchall()
            return [
                Entry(row[0], row[1], row[2], _cost(row[3], row[4], least=row[6]), row[5])
                for row in rows
                if name in (None, row[1])
            ]

    def _names(self, connection: sqlite3.Connection) -> list[str]:
        rows = connection.execute(
            "SELECT dataset FROM limits UNION SELECT dataset FROM spends ORDER BY 1"
        ).fetchall()
        return [str(name) for (name,) in rows]

    def _name(self, connection: sqlite3.Connection, dataset: str) -> str:
        """The name that the dataset's budget stands under: one that is there exactly, or else one
        that no other reads like.
        """
        known = self._names(connection)
        if dataset in known:
            return dataset
        name = plain_name(dataset)
        for other in known:
            if name != other and looks(other) == name:
                raise LedgerError(
                    f"{self.path} has a dataset that reads like {name!r} and is written {other!a}; "
                    "use that spelling, exactly."
                )
        return name

    def _afford(
        self, connection: sqlite3.Connection, dataset: str, cost: Cost, unit: str
    ) -> Account:
        account = self._account(connection, dataset)
        if account.limit is None:
            raise LedgerError(
                f"dataset {dataset!r} has no limit in {self.path}, and nothing is released without "
                "one; set it with: "
                f"{self._advice(dataset)}"
            )
        others = "SELECT unit FROM spends WHERE dataset = ? AND unit NOT IN ('', ?)"
        if (other := connection.execute(others, (dataset, unit)).fetchone()) is not None:
            raise LedgerError(
                f"what was spent on dataset {dataset!r} is for {other[0]}, and this release is for "
                f"{unit}; such costs do not "
                "add up. Use the same neighbours and records per person, or another dataset name "
                "with a limit of its own."
            )
        limit = account.limit
        counted = _counted(cost, limit.currency, dataset)
        if counted > account.left:
            left, advice = (
                text(max(account.left, Decimal(0))),
                self._advice(dataset, limit.currency),
            )
            raise BudgetExceeded(
                f"dataset {dataset!r} has {left} of its limit {text(limit.amount)} left, and this "
                f"release costs {text(counted)} "
                f"in {limit.currency}; lower {cost.currency}, or raise the limit with: {advice}"
            )
        return account

    def _advice(self, dataset: str, currency: str = "epsilon") -> str:
        return (
            f"noisewise ledger set-limit {shlex.quote(str(self.path))} --dataset "
            f"{shlex.quote(dataset)} --{currency} TOTAL"
        )

    def _account(self, connection: sqlite3.Connection, dataset: str) -> Account:
        limit = self._limit(connection, dataset)
        spends = connection.execute(
            "SELECT currency, amount FROM spends WHERE dataset = ?", (dataset,)
        ).fetchall()
        currency = "epsilon" if limit is None else limit.currency
        return Account(
            dataset,
            limit,
            compose(*(_counted(_cost(*row), currency, dataset) for row in spends)),
            len(spends),
        )

    def _limit(self, connection: sqlite3.Connection, dataset: str) -> Cost | None:
        query = (
            "SELECT currency, amount FROM limits WHERE dataset = ? ORDER BY position DESC LIMIT 1"
        )
        last = connection.execute(query, (dataset,)).fetchone()
        return None if last is None else _cost(last[0], last[1], least=0)

    def _create(self) -> None:
        """Make the file whole under another name, then link it: two makers at once leave one good
        ledger.
        """
        part = self.path.with_name(f".{uuid.uuid4()}.part")
        try:
            with closing(_memory()) as connection:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.executescript(_SCHEMA + _HOLD)
                part.write_bytes(connection.serialize())
            os.link(part, self.path)
        except FileExistsError:
            pass  # somebody made it meanwhile, just as good
        except (OSError, sqlite3.Error):
            raise LedgerError(
                f"cannot create the ledger {self.path}; check its folder and permissions."
            ) from None
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    @contextmanager
    def _reading(self, mode: Literal["rb", "r+b"] = "rb") -> Iterator[sqlite3.Connection]:
        """The ledger as it stands; what is changed in it is forgotten."""
        with (
            self._refusing() as path,
            open(path, mode) as file,
            closing(self._held(path, file)) as connection,
        ):
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The ledger with nobody else at it. At the end the changed one is on disk in its place;
        after an error nothing is.
        """
        with (
            self._refusing() as path,
            _alone(path) as file,
            closing(self._held(path, file)) as connection,
        ):
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
            data = connection.serialize()
            # of format 3 at most: its say is over, and SQLite itself would listen to it
            with suppress(FileNotFoundError):
                path.with_name(path.name + "-journal").unlink()
            if not put_in_place(path, NEXT, file, data):
                raise LedgerError(
                    f"the ledger {self.path} was renamed or linked while it was written, and "
                    "nothing is released; leave it alone "
                    "until releases are done."
                )

    @contextmanager
    def _refusing(self) -> Iterator[Path]:
        """The file's real path. What goes wrong with it is said in our own words."""
        if not self.path.is_file():
            raise LedgerError(
                f"there is no ledger {self.path}; make one with: {self._advice('NAME')}"
            )
        try:
            yield Path(os.path.realpath(self.path))
        # SQLite's message may quote the bytes of a damaged file
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {_reason(error)}") from None

    def _held(self, path: Path, file: BinaryIO) -> sqlite3.Connection:
        """The ledger in memory. A journal has no say in it: it may be of another time, when the
        file had another name.
        """
        version = self._recognise(file)
        connection = _memory()
        try:
            connection.deserialize(file.read())
            if version < _VERSION:
                journal = path.with_name(path.name + "-journal")
                if journal.exists() and connection.execute("PRAGMA integrity_check").fetchone() != (
                    "ok",
                ):
                    raise LedgerError(
                        f"the ledger {self.path} was left half-written, with the rest in "
                        f"{journal.name}. If neither was renamed, "
                        "linked or copied since, settle it with: sqlite3 "
                        f"{shlex.quote(str(self.path))} 'PRAGMA integrity_check'. "
                        "Else restore a backup, without that journal."
                    )
                connection.execute("BEGIN")
                self._grow(connection, version)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _grow(self, connection: sqlite3.Connection, version: int) -> None:
        """From format 1, where every amount was an epsilon, and from 2, where only the purpose told
        the unit.
        """
        if version == 1:
            for statement in _FROM_1.split(";"):
                connection.execute(statement)
        if version < 3:
            connection.execute("ALTER TABLE spends ADD COLUMN unit TEXT NOT NULL DEFAULT ''")
            connection.execute("DROP TRIGGER IF EXISTS spends_hold")
            for position, purpose in connection.execute(
                "SELECT position, purpose FROM spends"
            ).fetchall():
                told = _UNIT.search(str(purpose))
                unit = "" if told is None else told[0].replace("move", "replace_one")
                connection.execute(
                    "UPDATE spends SET unit = ? WHERE position = ?", (unit, position)
                )
            connection.execute(_HOLD)
        connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _recognise(self, file: BinaryIO) -> int:
        """The format, from SQLite's header (its documentation, "The Database Header")."""
        header = file.read(100)
        file.seek(0)
        if header[:16] != _MAGIC or int.from_bytes(header[68:72]) != APPLICATION_ID:
            raise LedgerError(f"{self.path} is not a noisewise ledger; check the path.")
        version = int.from_bytes(header[60:64])
        if not 1 <= version <= _VERSION:
            raise LedgerError(
                f"ledger format {version} of {self.path} is not known here; update noisewise."
            )
        if header[18:20] != b"\1\1":  # what was spent last may stand in another file
            raise LedgerError(
                f"the ledger {self.path} is in a mode of SQLite's that noisewise does not use; "
                "bring it back with: "
                f"sqlite3 {shlex.quote(str(self.path))} 'PRAGMA journal_mode = DELETE'"
            )
        if os.fstat(file.fileno()).st_nlink > 1:
            raise LedgerError(
                f"the ledger {self.path} has a second name (a hard link), under which spends would "
                "be forgotten; remove one."
            )
        return version


def _memory() -> sqlite3.Connection:
    if not hasattr(sqlite3.Connection, "deserialize"):
        raise LedgerError("a ledger needs SQLite 3.36 or newer; install a Python that has it.")
    return sqlite3.connect(":memory:", isolation_level=None)


@contextmanager
def _alone(path: Path) -> Iterator[BinaryIO]:
    """The file of that name, held by nobody else. Who had to wait looks again: meanwhile another
    may have taken its place.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        with open(path, "r+b") as file:
            try:
                _lock(file, end)
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    yield file
                    return
            finally:
                # said aloud: a child forked meanwhile has the file open too
                fcntl.flock(file, fcntl.LOCK_UN)


def _lock(file: BinaryIO, end: float) -> None:
    """Against other processes and threads, and against whoever would change the file where it
    stands, through SQLite.
    """
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SQLITE_LOCKS)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() > end:
                raise BlockingIOError from None
            time.sleep(0.01)


def _written(cost: Cost) -> str:
    """The amount as it is stored; with private bounds a rho has more digits than a
    person writes.
    """
    return text(exact_epsilon(cost.amount, cost.currency, digits=4 * DIGITS))


def _cost(currency: object, amount: object, least: int = 1) -> Cost:
    """A limit may be 0 (least = 0), a spend may not."""
    try:
        if currency not in ("epsilon", "rho"):
            raise ValueError
        if amount == "0" and least == 0:
            return Cost(currency, Decimal(0))
        return Cost(currency, exact_epsilon(str(amount), digits=4 * DIGITS))
    except ValueError:
        raise LedgerError(
            "an amount in the ledger is no positive number: the file is damaged; restore a backup."
        ) from None


def _counted(cost: Cost, currency: str, dataset: str) -> Decimal:
    try:
        return cost.counted_in(currency)
    except ValueError:
        raise LedgerError(
            f"the budget of dataset {dataset!r} is in epsilon, and a cost in rho (or with delta) "
            "is no pure epsilon; give the "
            "dataset a limit in rho (--rho, or --epsilon and --delta), under which an epsilon "
            "counts as epsilon^2/2."
        ) from None


def _reason(error: sqlite3.Error | UnicodeDecodeError | OSError) -> str:
    """The remedy; SQLite's own words tell nothing of records."""
    if isinstance(error, BlockingIOError):
        return (
            f"another process has held it for over {BUSY_SECONDS:g} s; wait for that one and "
            "try again."
        )
    if isinstance(error, OSError):
        why = os.strerror(error.errno) if error.errno else "it cannot be read or written"
        hint = (
            "mount its folder, not the file alone"
            if error.errno == errno.EBUSY
            else ("check the disk and the permissions")
        )
        return f"{why}, of it or its folder; {hint}."
    message = str(error)
    if (
        isinstance(error, UnicodeDecodeError)
        or "not a database" in message
        or "malformed" in message
    ):
        return (
            "it is not a noisewise ledger, or a damaged one; check the path, or restore it "
            "from "
            "a backup."
        )
    return f"{message}; check the disk and the permissions."


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
