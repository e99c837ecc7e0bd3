"""Records in files: CSV, Parquet, and folders of Parquet files."""

import glob
import os
from functools import reduce
from pathlib import Path

import duckdb

from noisewise.curator import csvfile
from noisewise.curator.database import connect
from noisewise.curator.reading import Columns
from noisewise.curator.schema import Source, typed
from noisewise.curator.shield import shielded
from noisewise.errors import RecordsError

_PARQUET = (".parquet", ".pq")
"""How the names of Parquet files end, in any case."""


def open_file(path: Path, columns: Columns) -> Source:
    """A .csv or .parquet file, or a folder of .parquet files."""
    try:
        if path.is_dir():
            return _folder(path, columns)
        if not path.is_file():
            raise RecordsError(f"there is no file {path}.")
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise RecordsError(f"cannot read {path}: {error.strerror}.") from None
    _check_readable(path)
    if path.suffix.lower() in _PARQUET:
        return _parquet([path], columns, f"{path} is not a readable Parquet file.")
    if path.suffix.lower() == ".csv":
        return _csv(path, _literal(path), columns)
    raise RecordsError(
        f"{path} is neither .csv nor .parquet; convert it, or give a table from Python."
    )


def _folder(path: Path, columns: Columns) -> Source:
    """The Parquet files of a folder, as one table. Anything else in it is refused rather than left
    out unsaid.
    """
    # Spark writes its _SUCCESS there
    files = sorted(file for file in path.iterdir() if file.name[0] not in "._")
    if not files or any(
        not file.is_file() or file.suffix.lower() not in _PARQUET for file in files
    ):
        raise RecordsError(
            f"{path} is a folder and can be read if it holds .parquet files alone; give such a "
            "one, or a file."
        )
    for file in files:
        _check_readable(file)
    if len({(file.stat().st_dev, file.stat().st_ino) for file in files}) < len(files):
        raise RecordsError(
            f"two names in {path} are one file, whose records would count twice; remove the links."
        )
    return _parquet(files, columns, f"a file in {path} is not a readable Parquet file.")


def _check_readable(path: Path) -> None:
    if not os.access(path, os.R_OK):
        raise RecordsError(f"the file {path} may not be read; check its permissions.")


def _literal(path: Path) -> str:
    # a * in a file's name is no pattern, and c0=5 in a folder's name no column
    return glob.escape(str(path))


def _parquet(files: list[Path], columns: Columns, fault: str) -> Source:
    """Files whose columns have the same types are read together; DuckDB would cast others to the
    types of the first.
    """

    def alike() -> list[list[str]]:
        by_types: dict[tuple[object, ...], list[str]] = {}
        with connect() as connection:
            for name in map(_literal, files):
                table = _scanned(connection, [name])
                kinds = dict(zip(table.columns, map(str, table.types), strict=True))
                types = tuple(kinds.get(column) for column, _ in columns.values())
                by_types.setdefault(types, []).append(name)
                wide = "SELECT name FROM parquet_schema(?) WHERE precision > 38"
                rounded.extend(column for (column,) in connection.execute(wide, [name]).fetchall())
        return list(by_types.values())

    def read(names: list[str]) -> Source:
        return typed(lambda connection: _scanned(connection, names), columns, fault)

    rounded: list[str] = []  # DuckDB takes such decimals for doubles, one digit off the nearest
    parts = [read(names) for names in shielded(alike, fault)]
    for column, _ in columns.values():
        if column in rounded:
            raise RecordsError(
                f"column {column!r} holds decimals of more than 38 digits; write it with fewer, or "
                "as text."
            )
    return lambda connection: reduce(
        duckdb.DuckDBPyRelation.union, [part(connection) for part in parts]
    )


def _scanned(connection: duckdb.DuckDBPyConnection, names: list[str]) -> duckdb.DuckDBPyRelation:
    """A column's largest number, in a Parquet file, leaves NaN out: nothing follows from it."""
    query = "FROM read_parquet(?, hive_partitioning = false, can_have_nan = true)"
    return connection.sql(query, params=[names])


def _csv(path: Path, literal: str, columns: Columns) -> Source:
    names = shielded(lambda: csvfile.header(path), csvfile.BROKEN_CSV)
    for column, _ in columns.values():
        if names.count(column) != 1:
            raise RecordsError(
                f"the first line of {path} must name the column {column!r} once, with commas "
                "between the names; check both."
            )
    placed: Columns = {
        ours: (f"c{names.index(column)}", wanted) for ours, (column, wanted) in columns.items()
    }
    return typed(
        lambda connection: csvfile.read(connection, literal, len(names)), placed, csvfile.BROKEN_CSV
    )
