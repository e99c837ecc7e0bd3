"""Sums of Spark frames. Columns of plain numbers are summed by Spark's own expressions; whatever
else there is goes to DuckDB on Spark's workers, in Arrow batches.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from noisewise.curator.parts import Row, Work, added
from noisewise.curator.sums import exact_as_floats

PLAIN = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
"""Spark's types of which every value is the same double there as in DuckDB. A decimal may differ
in its last digit.
"""
KINDS = (*PLAIN, "decimal", "string", "varchar", "char", "void")
"""Spark's types that hold numbers, text or nothing, without their settings."""
TOGETHER = 1 << 20
"""So many records are opened at once: Spark's own batches of 10 000 take longer to open than to
sum.
"""
WIDE = 200
"""Of more numbers than this, Spark gets rows instead of columns."""


def kinds_of(frame: Any) -> dict[str, str]:
    """The type of each column, without its settings."""
    return {name: kind.split("(")[0] for name, kind in frame.dtypes}


def total(frame: Any, work: Work) -> Row:
    """The numbers of all records; None if some could not be read."""
    chosen = frame.select([_column(name) for name in work.reading.names])
    if work.reading.persons is not None:
        chosen, work = _by_person(chosen, work), work.of_keys()
    elif _is_plain(frame, work) and (row := _own_sums(frame, work)) is not None:
        return row
    return (_in_rows if work.width > WIDE else _in_columns)(chosen, work)


def _column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def _is_plain(frame: Any, work: Work) -> bool:
    """Whether Spark's own expressions give the same integers: sums of plain numbers, by arithmetic
    of ours.
    """
    reading, kinds = work.reading, kinds_of(frame)
    return (
        work.lattice is not None
        and bool(work.lattice.stages)
        and work.lattice.fallible is None
        and reading.groups is None
        and not any(reading.level_keys())
        and all(kinds[name] in PLAIN for name in reading.names)
    )


def _own_sums(frame: Any, work: Work) -> Row:
    """n and the sums, all as Spark's doubles; None where there are too many records for that, or
    where a lattice asks for more than arithmetic, which is known before any record is read.
    """
    from pyspark.sql import functions

    from noisewise.curator import spark_namespace

    lattice = work.lattice
    assert lattice is not None
    columns = tuple(_column(name).cast("double") for name, _ in work.reading.columns.values())
    for stage in (*lattice.stages, None):
        frame = frame.select([one.alias(f"k{j}") for j, one in enumerate(columns)])
        columns = tuple(functions.col(f"k{j}") for j in range(len(columns)))
        if stage is None:
            break
        try:
            columns = stage(columns, spark_namespace)
        except AttributeError:  # a logarithm, which is not in the namespace
            return None
    n, *sums = frame.agg(functions.count("*"), *[functions.sum(k) for k in columns]).collect()[0]
    if not exact_as_floats(n, lattice):
        return None
    return [n, *(int(value or 0) for value in sums)]  # the sum over no records is null


def _by_person(chosen: Any, work: Work) -> Any:
    """The records with whose they are, all of one person in one part."""
    import pyarrow as pa
    from pyspark.sql.types import StringType, StructField, StructType

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for some in _together(batches):
            table = pa.Table.from_batches(some)
            keys = pa.array(work.keyed(table), pa.string())
            yield from table.append_column(work.key, keys).to_batches()

    schema = StructType([*chosen.schema.fields, StructField(work.key, StringType())])
    return chosen.mapInArrow(run, schema).repartition(_column(work.key))


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


def _all(batches: Iterator[Any]) -> Iterator[list[Any]]:
    held = list(batches)
    if held:
        yield held


def _part(batches: Iterator[Any], work: Work) -> list[int]:
    """Whether a part failed, and its numbers."""
    import pyarrow as pa

    # all records of a person must be seen at once
    parts = _together(batches) if work.reading.persons is None else _all(batches)
    total = added((work(pa.Table.from_batches(some)) for some in parts), work.width)
    return [1] + [0] * work.width if total is None else [0, *total]


def _in_columns(chosen: Any, work: Work) -> Row:
    """Few numbers: each is a column, and Spark sums it."""
    import pyarrow as pa
    from pyspark.sql import functions

    names = ["failed", *(f"k{j}" for j in range(work.width))]
    wide = pa.schema([(name, pa.decimal128(38)) for name in names])

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        numbers = _part(batches, work)
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


def _in_rows(chosen: Any, work: Work) -> Row:
    """Many numbers: each is a row with its place, because Spark takes long for many columns."""
    import pyarrow as pa
    from pyspark.sql import functions

    long = pa.schema([("place", pa.int64()), ("number", pa.decimal128(38))])

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        numbers = _part(batches, work)
        values = pa.array([Decimal(number) for number in numbers], pa.decimal128(38))
        yield pa.record_batch([pa.array(range(len(numbers)), pa.int64()), values], schema=long)

    rows = chosen.mapInArrow(run, "place bigint, number decimal(38,0)")
    total: list[Any] = [0] * (1 + work.width)
    for place, number in rows.groupBy("place").agg(functions.sum("number")).collect():
        total[place] = number
    if None in total or total[0] != 0:
        return None
    return [int(value) for value in total[1:]]
