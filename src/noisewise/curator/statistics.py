"""Exact integer statistics of a column, in one streaming pass inside DuckDB."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import duckdb
from duckdb import ColumnExpression, ConstantExpression, Expression, FunctionExpression, SQLExpression

from noisewise.curator import columns
from noisewise.curator.csvfile import BROKEN_CSV
from noisewise.curator.records import UNREADABLE, Source, Wanted, connect, open_column, shielded, text_of_number
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.lattice import Counts, Lattice
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family

VALUE = ColumnExpression("value")
COUNT = FunctionExpression("count")


@final
@dataclass(frozen=True, slots=True)
class Column:
    """One column of records, read anew by every pass; every pass goes through the shield."""

    source: Source
    fault: str

    @classmethod
    def open(cls, records: object, column: str, family: Family) -> "Column":
        """The column in the form that the family counts or sums."""
        text = isinstance(family, Categorical) and isinstance(family.labels[0], str)
        wanted: Wanted = "text" if text else "number"
        is_csv = isinstance(records, (str, os.PathLike)) and Path(records).suffix.lower() == ".csv"
        return cls(open_column(records, column, wanted), BROKEN_CSV if is_csv else UNREADABLE)

    def count(self) -> int:
        """n, the public number of records."""
        return int(self._rows(lambda records: records.aggregate([COUNT]))[0][0])

    def sums(self, lattice: Lattice) -> tuple[int, list[int]]:
        """n and, for each statistic, the sum of the records' integer contributions less their offsets."""
        if isinstance(lattice, Counts):
            return self._label_counts(lattice.family)
        named = [part.alias(f"k{j}") for j, part in enumerate(_expressions(lattice))]
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
        labels = [label if isinstance(label, str) else float(label) for label in family.labels]
        known = [ConstantExpression(label) for label in labels]
        listed = columns.where(VALUE.isin(*known), VALUE, None)
        if isinstance(labels[0], str):  # 1.0 in a file is the label 1, as it is where the column holds numbers
            digits = SQLExpression(text_of_number("TRY_CAST(value AS DOUBLE)"))
            listed = columns.where(VALUE.isin(*known), VALUE, columns.where(digits.isin(*known), digits, None))
        found = dict(self._rows(lambda records: records.select(listed.alias("value")).aggregate([VALUE, COUNT], "value")))
        n = sum(found.values())
        counts = [int(found.get(label, 0)) for label in labels]
        assert family.other is not None
        counts[family.labels.index(family.other)] += n - sum(counts)
        return n, counts

    def _rows(self, query: Callable[[duckdb.DuckDBPyRelation], duckdb.DuckDBPyRelation]) -> list[Any]:
        """The few rows that a query over the records gives."""

        def run() -> list[Any]:
            with connect() as connection:
                return list(query(self.source(connection)).fetchall())

        return shielded(run, self.fault)


def _expressions(lattice: Lattice) -> tuple[Expression, ...]:
    """The lattice's integers as database expressions, tried on no records: a fault of the family shows before any is read."""
    try:
        parts = lattice.integers(VALUE, columns)
        with connect() as connection:
            connection.sql("SELECT 0::DOUBLE AS value WHERE false").select(*parts).fetchall()
    except (AttributeError, TypeError, ValueError, duckdb.Error):
        raise UnsupportedCombination(
            "the family's statistic does not run in the database: it may use arithmetic, xp.log, xp.exp, xp.sqrt and xp.abs alone."
        ) from None
    return parts
