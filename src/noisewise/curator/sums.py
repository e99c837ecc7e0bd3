"""Exact integer statistics of a column, in one streaming pass inside DuckDB."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Protocol, final

import duckdb
import numpy as np
from duckdb import ColumnExpression, ConstantExpression, Expression, FunctionExpression

from noisewise.curator import duckdb_namespace as db
from noisewise.curator.csvfile import BROKEN_CSV
from noisewise.curator.records import (
    UNREADABLE,
    Source,
    Wanted,
    connect,
    key_of_text,
    open_columns,
    shielded,
)
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.lattice import Counts, Lattice, Plain
from noisewise.model import families
from noisewise.model.families.categorical import Categorical, Label
from noisewise.model.family import Family

VALUE, WITHIN, GROUP = (
    ColumnExpression("value"),
    ColumnExpression("within"),
    ColumnExpression("belongs"),
)
COUNT = FunctionExpression("count")
Sums = tuple[int, list[int]]
"""n and, for each statistic, the sum of the records' integer contributions less their offsets."""


class Column(Protocol):
    """One column of records, and maybe a second one that says which group a record belongs to."""

    def count(self) -> int:
        """n, the number of records."""

    def sums(self, lattice: Lattice) -> list[Sums]:
        """For each group; without groups, one for all records."""

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        """n, and how many records x have floor((x - lower)/width) + 1 at most 0, 1, ..., at least
        `bins`; missing ones in none.
        """


@final
@dataclass(frozen=True, slots=True)
class Held:
    """A column that DuckDB reads, anew for every pass; every pass goes through the shield."""

    source: Source
    fault: str
    labels: tuple[str | float, ...] = ()
    """Of a categorical family: what each label is matched by."""
    groups: tuple[str, ...] | None = None
    """What each group is matched by."""

    @classmethod
    def open(
        cls,
        records: object,
        column: str,
        family: Family,
        by: str | None = None,
        groups: tuple[Label, ...] | None = None,
    ) -> "Held":
        """The column in the form that the family counts or sums."""
        labels, keys = check_labels(family, groups)
        columns: dict[str, tuple[str, Wanted]] = {
            "value": (column, "text" if labels and isinstance(labels[0], str) else "number")
        }
        if by is not None:
            columns["belongs"] = (by, "text")
        is_csv = isinstance(records, (str, os.PathLike)) and Path(records).suffix.lower() == ".csv"
        return cls(
            open_columns(records, columns), BROKEN_CSV if is_csv else UNREADABLE, labels, keys
        )

    def count(self) -> int:
        return int(self._rows(lambda records: records.aggregate([COUNT]))[0][0])

    def sums(self, lattice: Lattice) -> list[Sums]:
        if isinstance(lattice, Counts):
            return self._label_counts(lattice.family)
        d = len(lattice.step)
        totals = [FunctionExpression("sum", ColumnExpression(f"k{j}")) for j in range(d)]
        if self.groups is None:
            ((n, *sums),) = self._rows(
                lambda records: _integers(records, lattice).aggregate([COUNT, *totals])
            )
            return [(n, [int(total or 0) for total in sums])]  # the sum over no records is NULL
        rows = self._rows(
            lambda records: _integers(self._listed(records), lattice, GROUP).aggregate(
                [GROUP, COUNT, *totals], "belongs"
            )
        )
        found = {group: (int(n), [int(total) for total in sums]) for group, n, *sums in rows}
        return [found.get(group, (0, [0] * d)) for group in self.groups]

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        index = db.floor((VALUE - lower) * (1 / width)) + 1.0
        index = db.where(index < 0.0, 0.0, db.where(index > float(bins), float(bins), index))
        index = db.astype(db.where(~db.isnan(VALUE), index, -1.0), "int64").alias("value")
        found = dict(
            self._rows(lambda records: records.select(index).aggregate([VALUE, COUNT], "value"))
        )
        return sum(found.values()), [int(found.get(index, 0)) for index in range(bins + 1)]

    def _label_counts(self, family: Categorical) -> list[Sums]:
        """n, and the records with each listed label; whatever is left of n is `other`."""
        listed = db.where(
            VALUE.isin(*[ConstantExpression(label) for label in self.labels]), VALUE, None
        ).alias("value")
        if self.groups is None:
            rows = self._rows(
                lambda records: records.select(listed).aggregate([VALUE, COUNT], "value")
            )
            found: dict[str | None, dict[Any, int]] = {None: dict(rows)}
        else:
            both = self._rows(
                lambda records: (
                    self._listed(records)
                    .select(GROUP, listed)
                    .aggregate([GROUP, VALUE, COUNT], "belongs, value")
                )
            )
            found = {}
            for group, value, n in both:
                found.setdefault(group, {})[value] = n
        assert family.other is not None
        other = family.labels.index(family.other)
        out = []
        for group in self.groups or (None,):
            own = found.get(group, {})
            n, counts = sum(own.values()), [int(own.get(label, 0)) for label in self.labels]
            counts[other] += n - sum(counts)
            out.append((n, counts))
        return out

    def _listed(self, records: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """The records of the listed groups; the others contribute nothing."""
        assert self.groups is not None
        return records.filter(GROUP.isin(*[ConstantExpression(group) for group in self.groups]))

    def _rows(
        self, query: Callable[[duckdb.DuckDBPyRelation], duckdb.DuckDBPyRelation]
    ) -> list[Any]:
        """The few rows that a query over the records gives."""

        def run() -> list[Any]:
            with connect() as connection:
                return list(query(self.source(connection)).fetchall())

        return shielded(run, self.fault)


def _integers(
    records: duckdb.DuckDBPyRelation, lattice: Lattice, *kept: Expression
) -> duckdb.DuckDBPyRelation:
    """A record's whole numbers as columns k0, k1, ...; one whose statistic fails is a missing
    record.
    """
    # ours cannot fail
    if not isinstance(lattice, Plain) or type(lattice.family).__module__.startswith(
        families.__name__
    ):
        return records.select(
            *kept, *[part.alias(f"k{j}") for j, part in enumerate(lattice.integers(VALUE, db))]
        )
    tried = [
        db.attempt(t, WITHIN).alias(f"t{j}")
        for j, t in enumerate(lattice.family.statistic(WITHIN, db))
    ]
    found = tuple(ColumnExpression(f"t{j}") for j in range(len(tried)))
    failed = reduce(or_, [t.isnull() for t in found])
    missing = [int(part[0]) for part in lattice.integers(np.array([np.nan]))]
    parts = zip(missing, lattice.rounded(VALUE, found, db), strict=True)
    named = [db.where(failed, whole, part).alias(f"k{j}") for j, (whole, part) in enumerate(parts)]
    records = records.select(*kept, VALUE, lattice.within(VALUE, db).alias("within"))
    return records.select(*kept, VALUE, *tried).select(*kept, *named)


def check_labels(
    family: Family, groups: tuple[Label, ...] | None
) -> tuple[tuple[str | float, ...], tuple[str, ...] | None]:
    """What each label and each group is matched by; refused where two are matched by the same."""
    labels = _label_keys(family.labels) if isinstance(family, Categorical) else ()
    return labels, None if groups is None else text_keys(groups, "groups")


def _label_keys(labels: tuple[Label, ...]) -> tuple[str | float, ...]:
    """What each label is matched by; refused where two are matched by the same, or one reads as
    missing.
    """
    return (
        tuple(float(label) for label in labels)
        if isinstance(labels[0], int)
        else text_keys(labels, "categories")
    )


def text_keys(labels: tuple[Label, ...], what: str) -> tuple[str, ...]:
    """The keys of labels, each of its own."""
    with connect() as connection:
        query = f"SELECT {key_of_text('label')} FROM (SELECT unnest(?::VARCHAR[]) AS label)"
        keys = tuple(
            key
            for (key,) in connection.execute(query, [[str(label) for label in labels]]).fetchall()
        )
    if None in keys or len(set(keys)) < len(keys):
        raise UnsupportedCombination(
            f"{what} must differ in more than the writing of a number, true or false (1 and 1.0 "
            "are one label), and none be nan."
        )
    return keys


def rehearse(lattice: Lattice) -> None:
    """Refuse a family whose statistic does not run in the database as it does in NumPy: tried on
    public values, no record.
    """
    if not isinstance(lattice, Plain):
        return
    x = np.concatenate(
        [np.linspace(lattice.lower, lattice.upper, 513), [0.0, -1.0, np.nan, np.inf, -np.inf]]
    )
    try:
        with connect() as connection, np.errstate(all="ignore"):
            values = connection.sql("SELECT unnest(?::DOUBLE[]) AS value", params=[x.tolist()])
            found = np.array(_integers(values, lattice).fetchall())
            same = np.abs(found - np.stack(lattice.integers(x), axis=-1)).max() <= 1
    except (AttributeError, TypeError, ValueError, duckdb.Error):
        same = False
    if not same:
        raise UnsupportedCombination(
            f"the statistic of the {lattice.family.kind} family does not run in the database as it "
            "does in NumPy: it may use "
            "+, -, *, /, xp.log, xp.exp, xp.sqrt and xp.abs alone."
        )
