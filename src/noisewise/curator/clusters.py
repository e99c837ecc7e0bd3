"""Records that lie spread over many machines: Spark and Dask frames. Every part is summed where it
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

from noisewise.curator.reading import Reading
from noisewise.curator.schema import check_columns, wrong_type
from noisewise.curator.shield import UNREADABLE, shielded
from noisewise.curator.sums import Held, Rows
from noisewise.errors import RecordsError
from noisewise.mechanism.lattice import Lattice, Sums

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
"""Spark's types that hold numbers, text or nothing, without their settings."""
TOGETHER = 1 << 20
"""So many records are opened at once: Spark's own batches of 10 000 take longer to open than to
sum.
"""
WIDE = 200
"""Of more numbers than this, Spark gets rows instead of columns."""
BRANCHES = 16
"""So many rows of totals are added up in one task, on Dask: few tasks, and none with too many."""
Row = list[int] | None
"""The whole numbers of a part; None if it could not be read. An exception would be logged by the
engine, with the part.
"""
Total = Callable[["Work"], Row]
"""Runs the work on every part of the records and adds up what it gives."""


def open_rows(records: Any, reading: Reading) -> Rows:
    """What is read of the records, wherever they are."""
    # who holds such a frame has imported it
    spark, dask = sys.modules.get("pyspark.sql"), sys.modules.get("dask.dataframe")
    on_spark = spark is not None and isinstance(records, spark.DataFrame)
    if not on_spark and (dask is None or not isinstance(records, dask.DataFrame)):
        return Held.open(records, reading)
    check_columns(shielded(lambda: list(records.columns)), reading.columns)
    reading.label_keys()
    reading.level_keys()
    reading.group_keys()
    if not on_spark:
        return Spread(lambda work: _dask_total(records[reading.names], work), reading)
    kinds = shielded(lambda: dict(records.dtypes))
    for name in reading.names:
        if kinds[name].split("(")[0] not in _SPARK:
            raise RecordsError(wrong_type(name))
    return Spread(lambda work: _spark_total(records, work), reading)


@final
@dataclass(frozen=True, slots=True)
class Work:
    """What is done with one part: open it, and give its whole numbers in one row."""

    reading: Reading
    lattice: Lattice | None = None
    bins: tuple[float, float, int] | None = None

    @property
    def width(self) -> int:
        """How many numbers there are."""
        if self.bins is not None:
            return 2 + self.bins[2]
        if self.lattice is None:
            return 1
        return len(self.reading.groups or (None,)) * (1 + self.lattice.width)

    def __call__(self, part: Any) -> Row:
        with suppress(Exception):
            return self._numbers(part)
        return None

    def _numbers(self, part: Any) -> list[int]:
        held = Held.open(part, self.reading)
        if self.bins is not None:
            n, counts = held.bin_counts(*self.bins)
            return [n, *counts]
        if self.lattice is None:
            return [held.count()]
        return [number for n, sums in held.sums(self.lattice) for number in (n, *sums)]


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """Records in parts; every pass goes through the shield."""

    total: Total
    reading: Reading

    def count(self) -> int:
        return self._run()[0]

    def sums(self, lattice: Lattice) -> list[Sums]:
        numbers, each = self._run(lattice=lattice), 1 + lattice.width
        return [
            (numbers[start], numbers[start + 1 : start + each])
            for start in range(0, len(numbers), each)
        ]

    def bin_counts(self, lower: float, width: float, bins: int) -> Sums:
        n, *counts = self._run(bins=(lower, width, bins))
        return n, counts

    def _run(self, **task: Any) -> list[int]:
        work = Work(self.reading, **task)
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
"""One for the process, whose logging it switches off and on."""


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
            delayed(_add)(parts[start : start + BRANCHES], work.width)
            for start in range(0, len(parts), BRANCHES)
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
    from pyspark.sql import functions

    chosen = frame.select(
        [functions.col("`" + name.replace("`", "``") + "`") for name in work.reading.names]
    )
    return (_spark_rows if work.width > WIDE else _spark_columns)(chosen, work)


def _spark_part(batches: Iterator[Any], work: Work) -> list[int]:
    """Whether a part failed, and its numbers."""
    import pyarrow as pa

    total = _add((work(pa.Table.from_batches(some)) for some in _together(batches)), work.width)
    return [1] + [0] * work.width if total is None else [0, *total]


def _spark_columns(chosen: Any, work: Work) -> Row:
    """Few numbers: each is a column, and Spark sums it."""
    import pyarrow as pa
    from pyspark.sql import functions

    names = ["failed", *(f"k{j}" for j in range(work.width))]
    wide = pa.schema([(name, pa.decimal128(38)) for name in names])

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        numbers = _spark_part(batches, work)
        yield pa.record_batch(
            [pa.array([Decimal(number)], pa.decimal128(38)) for number in numbers], schema=wide
        )

    sums = chosen.mapInArrow(run, ", ".join(f"{name} decimal(38,0)" for name in names))
    parts, *totals = sums.agg(
        functions.count("*"), *[functions.sum(name) for name in names]
    ).collect()[0]
    if parts == 0:
        return [0] * work.width
    if None in totals or totals[0] != 0:  # Spark's sum is null where it overflows
        return None
    return [int(value) for value in totals[1:]]


def _spark_rows(chosen: Any, work: Work) -> Row:
    """Many numbers: each is a row with its place, because Spark takes long for many columns."""
    import pyarrow as pa
    from pyspark.sql import functions

    long = pa.schema([("place", pa.int64()), ("number", pa.decimal128(38))])

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        numbers = _spark_part(batches, work)
        values = pa.array([Decimal(number) for number in numbers], pa.decimal128(38))
        yield pa.record_batch([pa.array(range(len(numbers)), pa.int64()), values], schema=long)

    rows = chosen.mapInArrow(run, "place bigint, number decimal(38,0)")
    total: list[Any] = [0] * (1 + work.width)
    for place, number in rows.groupBy("place").agg(functions.sum("number")).collect():
        total[place] = number
    if None in total or total[0] != 0:
        return None
    return [int(value) for value in total[1:]]
