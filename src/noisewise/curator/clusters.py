"""Columns that lie spread over many machines: Spark and Dask frames. Every part is summed where it
is, by the same code as a table in memory, and only the totals, whole numbers, come back.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import Any, final

from noisewise.curator.records import UNREADABLE, check_columns, shielded, wrong_type
from noisewise.curator.sums import Column, Held, Sums, check_labels
from noisewise.errors import RecordsError
from noisewise.mechanism.lattice import Lattice
from noisewise.model.families.categorical import Label
from noisewise.model.family import Family

_SPARK = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "string",
    "varchar",
    "char",
    "boolean",
    "void",
)
TOGETHER = 1 << 20
Row = list[int] | None
"""The whole numbers of a part; None if it could not be read. An exception would be logged by the
engine, with the part.
"""
Total = Callable[["Work"], Row]
"""Runs the work on every part of the records and adds up what it gives."""


def open_column(
    records: Any,
    column: str,
    family: Family,
    by: str | None = None,
    groups: tuple[Label, ...] | None = None,
) -> Column:
    """The column, wherever its records are."""
    # who holds such a frame has imported it
    spark, dask = sys.modules.get("pyspark.sql"), sys.modules.get("dask.dataframe")
    on_spark = spark is not None and isinstance(records, spark.DataFrame)
    if not on_spark and (dask is None or not isinstance(records, dask.DataFrame)):
        return Held.open(records, column, family, by, groups)
    wanted = [column] if by is None else [column, by]
    check_columns(
        shielded(lambda: list(records.columns)), {name: (name, "text") for name in wanted}
    )
    check_labels(family, groups)
    if not on_spark:
        return Spread(
            lambda work: _dask_total(records[list(dict.fromkeys(wanted))], work),
            column,
            family,
            by,
            groups,
        )
    kinds = shielded(lambda: dict(records.dtypes))
    for name in wanted:
        if kinds[name].split("(")[0] not in _SPARK:
            raise RecordsError(wrong_type(name))
    return Spread(lambda work: _spark_total(records, work), column, family, by, groups)


@final
@dataclass(frozen=True, slots=True)
class Work:
    """What is done with one part: open it, and give its whole numbers in one row."""

    column: str
    family: Family
    by: str | None
    groups: tuple[Label, ...] | None
    lattice: Lattice | None = None
    bins: tuple[float, float, int] | None = None

    @property
    def width(self) -> int:
        """How many numbers there are."""
        if self.bins is not None:
            return 2 + self.bins[2]
        return (
            1
            if self.lattice is None
            else len(self.groups or (None,)) * (1 + len(self.lattice.step))
        )

    def __call__(self, part: Any) -> Row:
        with suppress(Exception):
            return self._numbers(part)
        return None

    def _numbers(self, part: Any) -> list[int]:
        held = Held.open(part, self.column, self.family, self.by, self.groups)
        if self.bins is not None:
            n, counts = held.bin_counts(*self.bins)
            return [n, *counts]
        if self.lattice is None:
            return [held.count()]
        return [number for n, sums in held.sums(self.lattice) for number in (n, *sums)]


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """A column in parts; every pass goes through the shield."""

    total: Total
    column: str
    family: Family
    by: str | None
    groups: tuple[Label, ...] | None

    def count(self) -> int:
        return self._run()[0]

    def sums(self, lattice: Lattice) -> list[Sums]:
        numbers, each = self._run(lattice=lattice), 1 + len(lattice.step)
        return [
            (numbers[start], numbers[start + 1 : start + each])
            for start in range(0, len(numbers), each)
        ]

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        n, *counts = self._run(bins=(lower, width, bins))
        return n, counts

    def _run(self, **task: Any) -> list[int]:
        work = Work(self.column, self.family, self.by, self.groups, **task)
        with SILENCE:
            numbers = shielded(lambda: self.total(work), UNREADABLE)
        if numbers is None:
            raise RecordsError(UNREADABLE)
        return numbers


@final
class _Silence:
    """No Python logging while anybody is within: the engines' loggers quote records when a query
    fails. What the JVM logs is for its own settings to decide.
    """

    def __init__(self) -> None:
        self._lock, self._within, self._before = Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            if self._within == 0:
                self._before = logging.root.manager.disable
                logging.disable(logging.CRITICAL)
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                logging.disable(self._before)


SILENCE = _Silence()


def _add(rows: Iterable[Row], width: int) -> Row:
    total = [0] * width
    for row in rows:
        if row is None:
            return None
        total = [a + b for a, b in zip(total, row, strict=True)]
    return total


def _dask_total(frame: Any, work: Work) -> Row:
    from dask.delayed import delayed

    parts = [delayed(work)(part) for part in frame.to_delayed()]
    while len(parts) > 1:  # in a tree, where the parts are
        parts = [
            delayed(_add)(parts[start : start + 16], work.width)
            for start in range(0, len(parts), 16)
        ]
    return parts[0].compute() if parts else [0] * work.width


def _together(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """Arrow's small batches in lists of many records: opening each by itself would take longer than
    summing it.
    """
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= TOGETHER:
            yield held
            held = []
    if held:
        yield held


def _spark_total(frame: Any, work: Work) -> Row:
    import pyarrow as pa
    from pyspark.sql import functions

    names = ["failed", *(f"k{j}" for j in range(work.width))]
    wide = pa.schema([(name, pa.decimal128(38)) for name in names])
    wanted = list(dict.fromkeys([work.column] if work.by is None else [work.column, work.by]))

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        total = _add((work(pa.Table.from_batches(some)) for some in _together(batches)), work.width)
        numbers = [1] + [0] * work.width if total is None else [0, *total]
        yield pa.record_batch(
            [pa.array([Decimal(number)], pa.decimal128(38)) for number in numbers], schema=wide
        )

    chosen = frame.select([functions.col("`" + name.replace("`", "``") + "`") for name in wanted])
    sums = chosen.mapInArrow(run, ", ".join(f"{name} decimal(38,0)" for name in names))
    parts, *totals = sums.agg(
        functions.count("*"), *[functions.sum(name) for name in names]
    ).collect()[0]
    if parts == 0:
        return [0] * work.width
    if None in totals or totals[0] != 0:  # Spark's sum is null where it overflows
        return None
    return [int(value) for value in totals[1:]]
