"""Exact integer statistics of a column, in one streaming pass inside DuckDB."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import duckdb
import numpy as np
from duckdb import ColumnExpression, ConstantExpression, FunctionExpression

from noisewise.curator import columns
from noisewise.curator.csvfile import BROKEN_CSV
from noisewise.curator.records import UNREADABLE, Source, Wanted, connect, key_of_text, open_column, shielded
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.lattice import Counts, Lattice, Plain
from noisewise.model.families.categorical import Categorical, Label
from noisewise.model.family import Family

VALUE = ColumnExpression("value")
COUNT = FunctionExpression("count")


@final
@dataclass(frozen=True, slots=True)
class Column:
    """One column of records, read anew by every pass; every pass goes through the shield."""

    source: Source
    fault: str
    labels: tuple[str | float, ...] = ()
    """Of a categorical family: what each label is matched by."""

    @classmethod
    def open(cls, records: object, column: str, family: Family) -> "Column":
        """The column in the form that the family counts or sums."""
        labels = _label_keys(family.labels) if isinstance(family, Categorical) else ()
        wanted: Wanted = "text" if labels and isinstance(labels[0], str) else "number"
        is_csv = isinstance(records, (str, os.PathLike)) and Path(records).suffix.lower() == ".csv"
        return cls(open_column(records, column, wanted), BROKEN_CSV if is_csv else UNREADABLE, labels)

    def count(self) -> int:
        """n, the public number of records."""
        return int(self._rows(lambda records: records.aggregate([COUNT]))[0][0])

    def sums(self, lattice: Lattice) -> tuple[int, list[int]]:
        """n and, for each statistic, the sum of the records' integer contributions less their offsets."""
        if isinstance(lattice, Counts):
            return self._label_counts(lattice.family)
        named = [part.alias(f"k{j}") for j, part in enumerate(lattice.integers(VALUE, columns))]
        totals = [FunctionExpression("sum", ColumnExpression(f"k{j}")) for j in range(len(named))]
        ((n, *sums),) = self._rows(lambda records: records.select(*named).aggregate([COUNT, *totals]))
        return n, [int(total or 0) for total in sums]  # the sum over no records is NULL

    def bin_counts(self, lower: float, width: float, bins: int) -> tuple[int, list[int]]:
        """n, and how many records x have floor((x - lower)/width) + 1 at most 0, 1, ..., at least `bins`; missing ones in none."""
        index = columns.floor((VALUE - lower) * (1 / width)) + 1.0
        index = columns.where(index < 0.0, 0.0, columns.where(index > float(bins), float(bins), index))
        index = columns.astype(columns.where(~columns.isnan(VALUE), index, -1.0), "int64").alias("value")
        found = dict(self._rows(lambda records: records.select(index).aggregate([VALUE, COUNT], "value")))
        return sum(found.values()), [int(found.get(index, 0)) for index in range(bins + 1)]

    def _label_counts(self, family: Categorical) -> tuple[int, list[int]]:
        """n, and the records with each listed label; whatever is left of n is `other`."""
        listed = columns.where(VALUE.isin(*[ConstantExpression(label) for label in self.labels]), VALUE, None)
        found = dict(self._rows(lambda records: records.select(listed.alias("value")).aggregate([VALUE, COUNT], "value")))
        n = sum(found.values())
        counts = [int(found.get(label, 0)) for label in self.labels]
        assert family.other is not None
        counts[family.labels.index(family.other)] += n - sum(counts)
        return n, counts

    def _rows(self, query: Callable[[duckdb.DuckDBPyRelation], duckdb.DuckDBPyRelation]) -> list[Any]:
        """The few rows that a query over the records gives."""

        def run() -> list[Any]:
            with connect() as connection:
                return list(query(self.source(connection)).fetchall())

        return shielded(run, self.fault)


def _label_keys(labels: tuple[Label, ...]) -> tuple[str | float, ...]:
    """What each label is matched by; refused where two are matched by the same, or one reads as missing."""
    if isinstance(labels[0], int):
        return tuple(float(label) for label in labels)
    with connect() as connection:
        query = f"SELECT {key_of_text('label')} FROM (SELECT unnest(?::VARCHAR[]) AS label)"
        rows = connection.execute(query, [list(labels)]).fetchall()
    keys = tuple(key for (key,) in rows)
    if None in keys or len(set(keys)) < len(keys):
        raise UnsupportedCombination(
            "categories must differ in more than the writing of a number, true or false (1 and 1.0 are one label), and none be nan."
        )
    return keys


def rehearse(lattice: Lattice) -> None:
    """Refuse a family whose statistic does not run in the database as it does in NumPy: tried on public values, no record."""
    if not isinstance(lattice, Plain):
        return
    x = np.concatenate([np.linspace(lattice.lower, lattice.upper, 513), [0.0, -1.0, np.nan, np.inf, -np.inf]])
    try:
        parts = lattice.integers(VALUE, columns)
        with connect() as connection:
            table = connection.execute("CREATE TABLE t AS SELECT unnest(?::DOUBLE[]) AS value", [x.tolist()]).table("t")
            found = np.array(table.select(*parts).fetchall())
        with np.errstate(all="ignore"):
            same = np.abs(found - np.stack(lattice.integers(x), axis=-1)).max() <= 1
    except (AttributeError, TypeError, ValueError, duckdb.Error):
        same = False
    if not same:
        raise UnsupportedCombination(
            f"the statistic of the {lattice.family.kind} family does not run in the database as it does in NumPy: it may use "
            "+, -, *, /, xp.log, xp.exp, xp.sqrt and xp.abs alone."
        )
