"""A table that an engine reads, brought to columns under our names by its schema."""

from collections.abc import Callable
from typing import TypeAlias

import duckdb

from noisewise.curator.database import connect
from noisewise.curator.reading import Columns
from noisewise.curator.shield import shielded
from noisewise.curator.values import NUMBERS, TEXT, of_number, of_text, person_of
from noisewise.errors import RecordsError

Source: TypeAlias = Callable[[duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]
"""Gives the records anew, lazily, on a connection: a relation with the columns under our names."""


def check_columns(names: list[str], columns: Columns) -> None:
    """Refuse a table that has not each of the columns once. Its other names are not shown: of a
    file without a header they are a record.
    """
    for column, _ in columns.values():
        if names.count(column) != 1:
            fault = "there is no column" if column not in names else "there is more than one column"
            raise RecordsError(f"{fault} {column!r}; check the name.")


def typed(read: Source, columns: Columns, fault: str) -> Source:
    """Columns whose types are declared by a schema; a type that holds no numbers and no text is
    refused.
    """

    def schema() -> tuple[list[str], dict[str, str]]:
        with connect() as connection:
            table = read(connection)
            return list(table.columns), {
                column: kind_of(table, column) for column, _ in columns.values()
            }

    names, kinds = shielded(schema, fault)
    check_columns(names, columns)
    values = []
    for ours, (column, wanted) in columns.items():
        kind, name = kinds[column], quoted(column)
        if wanted == "person" and kind in ("BOOLEAN", *TEXT, *NUMBERS):
            value = person_of(name, kind)
        elif kind in TEXT:
            text = f"CAST({name} AS VARCHAR)"
            value = of_text(text, wanted)
        elif kind == "BOOLEAN" and wanted != "number":
            value = of_text(f"CAST({name} AS VARCHAR)", wanted)
        elif kind in ("BOOLEAN", *NUMBERS):
            number = name if kind == "DOUBLE" else f"TRY_CAST({name} AS DOUBLE)"
            value = of_number(number, wanted)
        else:
            raise RecordsError(wrong_type(column))
        values.append(f"{value} AS {ours}")
    return lambda connection: read(connection).project(", ".join(values))


def kind_of(table: duckdb.DuckDBPyRelation, column: str) -> str:
    """The column's type without its settings, such as DECIMAL; none if there is no such column."""
    kinds = dict(zip(table.columns, table.types, strict=True))
    return str(kinds.get(column, "")).split("(")[0]


def quoted(column: str) -> str:
    """The name as SQL."""
    return '"' + column.replace('"', '""') + '"'


def wrong_type(column: str) -> str:
    """Said of a column whose type the schema tells."""
    return (
        f"column {column!r} has a type that holds neither numbers nor text; choose another column."
    )


def wrong_types(columns: Columns) -> str:
    """Said where an engine fails on some column of a table that it holds already."""
    names = list(dict.fromkeys(repr(column) for column, _ in columns.values()))
    if len(names) == 1:
        return wrong_type(next(iter(columns.values()))[0])
    return (
        f"one of the columns {', '.join(names)} has a type that holds neither numbers nor text; "
        "choose another."
    )
