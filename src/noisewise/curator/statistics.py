"""Exact integer statistics of a column, in one streaming pass inside DuckDB."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from duckdb import ColumnExpression, ConstantExpression, FunctionExpression

from noisewise.curator import columns
from noisewise.curator.records import BROKEN_CSV, UNREADABLE, Wanted, open_column, shielded
from noisewise.mechanism.lattice import Counts, Lattice
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family


@dataclass(frozen=True)
class Column:
    """One column of records, read lazily; every pass goes through the shield."""

    relation: duckdb.DuckDBPyRelation
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
        return self._totals(self.relation.aggregate([FunctionExpression("count")]))[0]

    def sums(self, lattice: Lattice) -> tuple[int, list[int]]:
        """n and, for each statistic, the sum of the records' integer contributions less their offsets."""
        if isinstance(lattice, Counts):
            return self._label_counts(lattice.family)
        parts = lattice.integers(ColumnExpression("value"), columns)
        named = [part.alias(f"k{j}") for j, part in enumerate(parts)]
        totals = [FunctionExpression("sum", ColumnExpression(f"k{j}")) for j in range(len(parts))]
        n, *sums = self._totals(self.relation.select(*named).aggregate([FunctionExpression("count"), *totals]))
        return n, sums

    def bin_counts(self, lower: float, width: float, bins: int) -> list[int]:
        """How many records x have floor((x - lower)/width) + 1 = 0 or less, 1, ..., `bins` or more; missing ones in none."""
        x = ColumnExpression("value")
        index = columns.floor((x - lower) * (1 / width)) + 1.0
        index = columns.where(index < 0.0, 0.0, columns.where(index > float(bins), float(bins), index))
        index = columns.astype(columns.where(~columns.isnan(x), index, -1.0), "int64")
        found = self._groups(self.relation.select(index.alias("value")))
        return [int(found.get(index, 0)) for index in range(bins + 1)]

    def _label_counts(self, family: Categorical) -> tuple[int, list[int]]:
        """Count the listed labels; whatever is left of n is `other`."""
        labels = [label if isinstance(label, str) else float(label) for label in family.labels]
        listed = ColumnExpression("value").isin(*[ConstantExpression(label) for label in labels])
        n = self.count()
        found = self._groups(self.relation.filter(listed))
        counts = [int(found.get(label, 0)) for label in labels]
        assert family.other is not None
        counts[family.labels.index(family.other)] += n - sum(counts)
        return n, counts

    def _groups(self, relation: duckdb.DuckDBPyRelation) -> dict[Any, int]:
        """How often each `value` occurs."""
        counts = relation.aggregate([ColumnExpression("value"), FunctionExpression("count")], "value")
        return dict(shielded(counts.fetchall, self.fault))

    def _totals(self, relation: duckdb.DuckDBPyRelation) -> list[int]:
        (row,) = shielded(relation.fetchall, self.fault)
        return [int(value or 0) for value in row]  # the sum over no records is NULL
