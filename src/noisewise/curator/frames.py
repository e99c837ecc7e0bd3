"""Records that Python holds: polars, pyarrow and DuckDB tables, whose schema is trusted."""

from typing import Any

import duckdb

from noisewise.curator.reading import Columns
from noisewise.curator.schema import (
    Source,
    check_columns,
    kind_of,
    quoted,
    typed,
    wrong_type,
    wrong_types,
)
from noisewise.curator.shield import UNREADABLE, shielded
from noisewise.curator.values import FLOATS, INTEGERS, NUMBERS, TEXT
from noisewise.errors import RecordsError

UNKNOWN_TO_DUCKDB = {"Float16": float, "Int128": str, "UInt128": str}
"""Types of polars that DuckDB cannot read from Arrow, and what they are made instead."""


def open_polars(records: Any, columns: Columns) -> Source:
    """A frame, or a lazy one, of which the columns alone are collected."""
    schema = shielded(records.collect_schema)
    check_columns(list(schema.names()), columns)

    def collect() -> Any:
        chosen = list(dict.fromkeys(column for column, _ in columns.values()))
        kinds = {name: UNKNOWN_TO_DUCKDB.get(str(schema[name])) for name in chosen}
        unknown = {name: kind for name, kind in kinds.items() if kind is not None}
        return records.lazy().select(chosen).cast(unknown).collect()

    frame = shielded(collect)
    return typed(lambda connection: connection.from_arrow(frame), columns, wrong_types(columns))


def open_pyarrow(records: Any, columns: Columns) -> Source:
    """A table or a batch."""
    import pyarrow as pa

    check_columns(list(records.schema.names), columns)

    def known() -> Any:
        chosen = {}
        for column, _ in columns.values():
            kind, values = records.schema.field(column).type, records.column(column)
            # DuckDB knows neither; as text, a decimal is rounded as a shorter one would be
            if pa.types.is_decimal256(kind):
                values = values.cast(pa.string())
            chosen[column] = values.cast(pa.float64()) if pa.types.is_float16(kind) else values
        return pa.table(chosen)

    table = shielded(known)
    return typed(lambda connection: connection.from_arrow(table), columns, wrong_types(columns))


class _Stream:
    """A relation of the user's connection as nothing but a stream of Arrow data, which another
    connection may read.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._relation.__arrow_c_stream__(requested_schema)


def open_relation(records: duckdb.DuckDBPyRelation, columns: Columns) -> Source:
    """Read on a connection of our own: the user's may have a collation that merges labels, or
    settings that make 1/0 an error.
    """
    names = shielded(
        lambda: list(records.columns), "the relation cannot be read; is its connection open?"
    )
    check_columns(names, columns)
    plain = []
    for ours, (column, wanted) in columns.items():
        if [name.casefold() for name in names].count(column.casefold()) > 1:
            raise RecordsError(
                f"another column's name differs from {column!r} only in case: one to DuckDB. "
                "Rename one."
            )
        kind, name = shielded(lambda column=column: kind_of(records, column)), quoted(column)  # type: ignore[misc]
        if kind not in (*TEXT, *NUMBERS, "BOOLEAN"):
            raise RecordsError(wrong_type(column))
        # nothing is compared there: by the user's collation, or by what a file says of its NaN
        if kind in TEXT or (wanted == "person" and kind not in (*INTEGERS, *FLOATS, "BOOLEAN")):
            value = f"CAST({name} AS VARCHAR)"
        elif wanted == "person" or kind in (*FLOATS, "BOOLEAN"):
            value = name
        else:
            value = f"TRY_CAST({name} AS DOUBLE)"
        plain.append(f"{value} AS {ours}")
    stream = _Stream(shielded(lambda: records.project(", ".join(plain))))
    ours_alone: Columns = {ours: (ours, wanted) for ours, (_, wanted) in columns.items()}
    return typed(lambda connection: connection.from_arrow(stream), ours_alone, UNREADABLE)
