"""What was spent on which dataset, and what is left: a SQLite file that may over-count but never
under-counts.

Every spend is checked against the limit and written in one transaction, before any noise is drawn.
A dataset's limit is in pure epsilon or in rho, and so is its account: under a limit in rho, an
epsilon counts as epsilon^2/2; under one in epsilon, a cost in rho is refused. All costs of a
dataset are for one unit of privacy: those for others do not add up.
"""

import os
import sqlite3
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import final

from noisewise.curator.ledger_file import LedgerFile, advice
from noisewise.curator.names import looks, plain_name
from noisewise.errors import AlreadySpent, BudgetExceeded, LedgerError
from noisewise.mechanism.privacy import (
    DIGITS_OF_TOTAL,
    Cost,
    compose,
    exact_epsilon,
    remaining,
    text,
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

    @property
    def _file(self) -> LedgerFile:
        return LedgerFile(self.path)

    def owns(self, path: Path) -> bool:
        """Whether SQLite would take the path for a part of the ledger, and might delete it."""
        return self._file.owns(path)

    def set_limit(self, dataset: str, limit: Cost) -> Account:
        """Set what may ever be spent on a dataset in all, creating the file if there is none. A
        limit of 0 freezes it.
        """
        amount = _written(limit) if limit.amount else "0"
        if not os.path.lexists(self.path):
            plain_name(dataset)  # refused before there is a file
            self._file.create()
        with self._file.transaction() as connection:
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
        # one that may not be written is found out here
        with self._file.reading("r+b") as connection:
            return self._afford(connection, self._name(connection, dataset), cost, unit)

    def spend(
        self, dataset: str, cost: Cost, unit: str, purpose: str, key: str | None = None
    ) -> str:
        """Record the cost, or raise and record nothing. Returns the spend's id once it is safely on
        disk. A key is charged once: whoever comes with it again is told of the spend it made.
        """
        spend, amount = str(uuid.uuid4()), _written(cost)
        with self._file.transaction() as connection:
            if key is not None and (before := self._paid(connection, key)) is not None:
                raise AlreadySpent(
                    f"this was paid for already (spend {before}), and is not charged again; the "
                    "release that was made then is the one to use.",
                    before,
                )
            name = self._name(connection, dataset)
            self._afford(connection, name, cost, unit)
            connection.execute(
                "INSERT INTO spends (id, dataset, currency, amount, at, purpose, unit) VALUES (?, "
                "?, ?, ?, ?, ?, ?)",
                (spend, name, cost.currency, amount, _now(), purpose, unit),
            )
            if key is not None:
                connection.execute("INSERT INTO keys (key, spend) VALUES (?, ?)", (key, spend))
        return spend

    def paid(self, key: str) -> str | None:
        """The id of the spend that a request with this key has made, if it has made one."""
        with self._file.reading() as connection:
            return self._paid(connection, key)

    def accounts(self) -> list[Account]:
        """Every dataset that the ledger knows, by name."""
        with self._file.reading() as connection:
            return [self._account(connection, name) for name in self._names(connection)]

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Everything that was set or spent, oldest first."""
        with self._file.reading() as connection:
            known = self._names(connection)
            name = None if dataset is None else self._name(connection, dataset)
            if name is not None and name not in known:
                raise LedgerError(
                    f"there is no dataset {dataset!r} in {self.path}; known are: "
                    f"{', '.join(known)}."
                )
            rows = connection.execute(
                "SELECT at, dataset, 'limit', currency, amount, NULL, 0 AS kind, position FROM "
                "limits UNION ALL SELECT at, dataset, purpose, currency, amount, id, 1, position "
                "FROM spends ORDER BY at, kind, position"
            ).fetchall()
            return [
                Entry(row[0], row[1], row[2], _cost(row[3], row[4], least=row[6]), row[5])
                for row in rows
                if name in (None, row[1])
            ]

    def _paid(self, connection: sqlite3.Connection, key: str) -> str | None:
        found = connection.execute("SELECT spend FROM keys WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

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
                f"one; set it with: {advice(self.path, dataset)}"
            )
        others = "SELECT unit FROM spends WHERE dataset = ? AND unit NOT IN ('', ?)"
        if (other := connection.execute(others, (dataset, unit)).fetchone()) is not None:
            raise LedgerError(
                f"what was spent on dataset {dataset!r} is for {other[0]}, and this release is for "
                f"{unit}; such costs do not add up. Use the same neighbours and records per "
                "person, or another dataset name with a limit of its own."
            )
        limit = account.limit
        counted = _counted(cost, limit.currency, dataset)
        if counted > account.left:
            left = text(max(account.left, Decimal(0)))
            raise BudgetExceeded(
                f"dataset {dataset!r} has {left} of its limit {text(limit.amount)} left, and this "
                f"release costs {text(counted)} in {limit.currency}; lower {cost.currency}, or "
                f"raise the limit with: {advice(self.path, dataset, limit.currency)}"
            )
        return account

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


def _written(cost: Cost) -> str:
    """The amount as it is stored; with private bounds a rho has more digits than people write."""
    return text(exact_epsilon(cost.amount, cost.currency, digits=DIGITS_OF_TOTAL))


def _cost(currency: object, amount: object, least: int = 1) -> Cost:
    """A limit may be 0 (least = 0), a spend may not."""
    try:
        if currency not in ("epsilon", "rho"):
            raise ValueError
        if amount == "0" and least == 0:
            return Cost(currency, Decimal(0))
        return Cost(currency, exact_epsilon(str(amount), digits=DIGITS_OF_TOTAL))
    except ValueError:
        raise LedgerError(
            "an amount in the ledger is not a positive number: the file is damaged; restore a "
            "backup."
        ) from None


def _counted(cost: Cost, currency: str, dataset: str) -> Decimal:
    try:
        return cost.counted_in(currency)
    except ValueError:
        raise LedgerError(
            f"the budget of dataset {dataset!r} is in epsilon, and a cost in rho (or with delta) "
            "is no pure epsilon; give the dataset a limit in rho (--rho, or --epsilon and "
            "--delta), under which an epsilon counts as epsilon^2/2."
        ) from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
