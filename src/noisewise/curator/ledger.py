"""What was spent on which dataset, and what is left: a SQLite file that may over-count but never under-counts.

Every spend is checked against the limit and written in one transaction, before any noise is drawn. A dataset's limit is
in pure epsilon or in rho, and so is its account: under a limit in rho, an epsilon counts as epsilon^2/2; under one in
epsilon, a cost in rho is refused. All costs of a dataset are for one unit of privacy: those for others do not add up.
"""

import os
import re
import shlex
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import final

from noisewise.errors import BudgetExceeded, LedgerError
from noisewise.mechanism.privacy import DIGITS, Cost, compose, exact_epsilon, remaining, text

APPLICATION_ID = 0x4E5A4C47
BUSY_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE limits (position INTEGER PRIMARY KEY, dataset TEXT NOT NULL, amount TEXT NOT NULL, at TEXT NOT NULL,
                     currency TEXT NOT NULL DEFAULT 'epsilon');
CREATE TABLE spends (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, amount TEXT NOT NULL,
                     at TEXT NOT NULL, purpose TEXT NOT NULL, currency TEXT NOT NULL DEFAULT 'epsilon',
                     unit TEXT NOT NULL DEFAULT '');
CREATE TRIGGER spends_stay BEFORE DELETE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never deleted'); END;
"""
_HOLD = "CREATE TRIGGER spends_hold BEFORE UPDATE ON spends BEGIN SELECT RAISE(ABORT, 'a spend is never changed'); END"
_VERSION = 3
_UNIT = re.compile(r"(replace_one|add_remove|move), [0-9]+ per person(?=\)$)")
_FROM_1 = "".join(
    f"ALTER TABLE {table} RENAME COLUMN epsilon TO amount;ALTER TABLE {table} ADD COLUMN currency TEXT NOT NULL DEFAULT 'epsilon';"
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
        return path.resolve() in [own.with_name(own.name + end) for end in ("", "-journal", "-wal", "-shm")]

    def set_limit(self, dataset: str, limit: Cost) -> Account:
        """Set what may ever be spent on a dataset in all, creating the file if there is none."""
        if not dataset or not dataset.isprintable():
            raise LedgerError("dataset must be a printable name, such as visits-2026.")
        amount = _written(limit)
        if not os.path.lexists(self.path):
            self._create()
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO limits (dataset, currency, amount, at) VALUES (?, ?, ?, ?)", (dataset, limit.currency, amount, _now())
            )
            return self._account(connection, dataset)

    def check(self, dataset: str, cost: Cost, unit: str) -> Account:
        """Refuse a cost that would not fit now; `spend` decides for good. The unit says for which neighbours the cost holds."""
        _written(cost)
        with self._transaction() as connection:
            return self._afford(connection, dataset, cost, unit)

    def spend(self, dataset: str, cost: Cost, unit: str, purpose: str) -> str:
        """Record the cost, or raise and record nothing. Returns the spend's id once it is safely on disk."""
        spend, amount = str(uuid.uuid4()), _written(cost)
        with self._transaction() as connection:
            self._afford(connection, dataset, cost, unit)
            connection.execute(
                "INSERT INTO spends (id, dataset, currency, amount, at, purpose, unit) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (spend, dataset, cost.currency, amount, _now(), purpose, unit),
            )
        return spend

    def accounts(self) -> list[Account]:
        """Every dataset that the ledger knows, by name."""
        with self._transaction() as connection:
            names = connection.execute("SELECT dataset FROM limits UNION SELECT dataset FROM spends ORDER BY 1").fetchall()
            return [self._account(connection, name) for (name,) in names]

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Everything that was set or spent, oldest first."""
        known = [account.dataset for account in self.accounts()]
        if dataset is not None and dataset not in known:
            raise LedgerError(f"there is no dataset {dataset!r} in {self.path}; known are: {', '.join(known)}.")
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT at, dataset, 'limit', currency, amount, NULL, 0 AS kind, position FROM limits "
                "UNION ALL SELECT at, dataset, purpose, currency, amount, id, 1, position FROM spends ORDER BY at, kind, position"
            ).fetchall()
        return [Entry(row[0], row[1], row[2], _cost(*row[3:5]), row[5]) for row in rows if dataset in (None, row[1])]

    def _afford(self, connection: sqlite3.Connection, dataset: str, cost: Cost, unit: str) -> Account:
        account = self._account(connection, dataset)
        if account.limit is None:
            raise LedgerError(
                f"dataset {dataset!r} has no limit in {self.path}, and nothing is released without one; set it with: "
                f"{self._advice(dataset)}"
            )
        others = "SELECT unit FROM spends WHERE dataset = ? AND unit NOT IN ('', ?)"
        if (other := connection.execute(others, (dataset, unit)).fetchone()) is not None:
            raise LedgerError(
                f"what was spent on dataset {dataset!r} is for {other[0]}, and this release is for {unit}; such costs do not "
                "add up. Use the same neighbours and records per person, or another dataset name with a limit of its own."
            )
        limit = account.limit
        counted = _counted(cost, limit.currency, dataset)
        if counted > account.left:
            left, advice = text(max(account.left, Decimal(0))), self._advice(dataset, limit.currency)
            raise BudgetExceeded(
                f"dataset {dataset!r} has {left} of its limit {text(limit.amount)} left, and this release costs {text(counted)} "
                f"in {limit.currency}; lower {cost.currency}, or raise the limit with: {advice}"
            )
        return account

    def _advice(self, dataset: str, currency: str = "epsilon") -> str:
        return f"noisewise ledger set-limit {shlex.quote(str(self.path))} --dataset {shlex.quote(dataset)} --{currency} TOTAL"

    def _account(self, connection: sqlite3.Connection, dataset: str) -> Account:
        last = connection.execute(
            "SELECT currency, amount FROM limits WHERE dataset = ? ORDER BY position DESC LIMIT 1", (dataset,)
        ).fetchone()
        spends = connection.execute("SELECT currency, amount FROM spends WHERE dataset = ?", (dataset,)).fetchall()
        limit = None if last is None else _cost(*last)
        currency = "epsilon" if limit is None else limit.currency
        return Account(dataset, limit, compose(*(_counted(_cost(*row), currency, dataset) for row in spends)), len(spends))

    def _create(self) -> None:
        """Make the file whole under another name, then link it: two makers at once leave one good ledger."""
        part = self.path.with_name(f".{uuid.uuid4()}.part")
        try:
            connection = sqlite3.connect(part, isolation_level=None)
            try:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.executescript(_SCHEMA + _HOLD)
            finally:
                connection.close()
            os.link(part, self.path)
        except FileExistsError:
            pass  # somebody made it meanwhile, just as good
        except (OSError, sqlite3.Error):
            raise LedgerError(f"cannot create the ledger {self.path}; check its folder and permissions.") from None
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One immediate transaction: committed to disk at the end, or rolled back whole."""
        if not self.path.is_file():
            raise LedgerError(f"there is no ledger {self.path}; make one with: {self._advice('NAME')}")
        connection = None
        try:
            uri = self.path.absolute().as_uri() + "?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
            connection.execute("PRAGMA synchronous = EXTRA")
            version = self._recognise(connection)
            connection.execute("BEGIN IMMEDIATE")
            if version < _VERSION:
                self._grow(connection)
            yield connection
            connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's own message may quote the bytes of a damaged file
            raise LedgerError(f"the ledger {self.path} cannot be used: {_reason(error)}") from None
        finally:
            if connection is not None:
                connection.close()  # rolls back what was not committed

    def _grow(self, connection: sqlite3.Connection) -> None:
        """From format 1, where every amount was an epsilon, and from 2, where only the purpose told the unit, in a transaction."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # somebody else may have been faster
        if version == 1:
            for statement in _FROM_1.split(";"):
                connection.execute(statement)
        if version < _VERSION:
            connection.execute("ALTER TABLE spends ADD COLUMN unit TEXT NOT NULL DEFAULT ''")
            connection.execute("DROP TRIGGER IF EXISTS spends_hold")
            for position, purpose in connection.execute("SELECT position, purpose FROM spends").fetchall():
                told = _UNIT.search(str(purpose))
                unit = "" if told is None else told[0].replace("move", "replace_one")
                connection.execute("UPDATE spends SET unit = ? WHERE position = ?", (unit, position))
            connection.execute(_HOLD)
            connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _recognise(self, connection: sqlite3.Connection) -> int:
        (identity,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if identity != APPLICATION_ID:
            raise LedgerError(f"{self.path} is not a noisewise ledger; check the path.")
        if not 1 <= version <= _VERSION:
            raise LedgerError(f"ledger format {version} of {self.path} is not known here; update noisewise.")
        return int(version)


def _written(cost: Cost) -> str:
    """The amount as it is stored; with private bounds a rho has more digits than a person writes."""
    return text(exact_epsilon(cost.amount, cost.currency, digits=4 * DIGITS))


def _cost(currency: object, amount: object) -> Cost:
    try:
        if currency not in ("epsilon", "rho"):
            raise ValueError
        return Cost(currency, exact_epsilon(str(amount), digits=4 * DIGITS))
    except ValueError:
        raise LedgerError("an amount in the ledger is no positive number: the file is damaged; restore a backup.") from None


def _counted(cost: Cost, currency: str, dataset: str) -> Decimal:
    try:
        return cost.counted_in(currency)
    except ValueError:
        raise LedgerError(
            f"the budget of dataset {dataset!r} is in epsilon, and a cost in rho (or with delta) is no pure epsilon; give the "
            "dataset a limit in rho (--rho, or --epsilon and --delta), under which an epsilon counts as epsilon^2/2."
        ) from None


def _reason(error: sqlite3.Error | UnicodeDecodeError) -> str:
    """SQLite's own words tell nothing of records, but a person needs the remedy."""
    message = str(error)
    if "locked" in message or "busy" in message:
        return f"another process has held it for over {BUSY_SECONDS:g} s; wait for that one and try again."
    if "readonly" in message or "unable to open" in message:
        return "it, or its folder, cannot be written to; check the permissions."
    if isinstance(error, UnicodeDecodeError) or "not a database" in message or "malformed" in message:
        return "it is not a noisewise ledger, or a damaged one; check the path, or restore it from a backup."
    return f"{message}; check the disk and the permissions."


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
