"""Records from wherever they are, as one DuckDB column of numbers or of text.

What a value means does not depend on the column's type, because one changed record can change that type (a null turns
pandas integers into floats, a word turns them into objects). As a number: true is 1, false is 0, text is parsed by
DuckDB, anything else is missing. As a label: see `key_of_text`.
"""

import glob
import numbers
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import duckdb
import numpy as np

from noisewise.curator import csvfile
from noisewise.errors import RecordsError

Wanted = Literal["number", "text"]
Source: TypeAlias = Callable[[duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]
"""Gives the records anew, lazily, on a connection: a relation with one column `value`."""
T = TypeVar("T")

UNREADABLE = "the records cannot be read; check that the file is whole and of the kind that its name says."
_NUMBERS = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
    "BIGNUM",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
]
_TEXT = ("VARCHAR", "ENUM", "NULL", '"NULL"')


def shielded(call: Callable[[], T], sentence: str = UNREADABLE) -> T:
    """Run an engine; whatever it raises becomes one fixed sentence, since its own words may quote a record."""
    try:
        with np.errstate(all="ignore"):
            return call()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110  any class, and polars panics with one of its own: which one may tell of a record
        pass
    raise RecordsError(sentence)  # outside the handler, so that the engine's error is not chained to it


def connect() -> duckdb.DuckDBPyConnection:
    """A database of our own in memory: no spill to disk, where records would outlive the process, and no settings of others."""
    safe = {"temp_directory": "", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(":memory:", config=safe)


def open_column(records: Any, column: str, wanted: Wanted) -> Source:
    """The column as a source of `value`: a DOUBLE, or the key of a label as VARCHAR. NULL is missing, and so is NaN."""
    if isinstance(records, (str, os.PathLike)):
        return _file(Path(records), column, wanted)
    if isinstance(records, duckdb.DuckDBPyRelation):
        return _relation(records, column, wanted)
    for package, kinds, opened in (
        ("pandas", ("DataFrame",), _pandas),
        ("polars", ("DataFrame", "LazyFrame"), _polars),
        ("pyarrow", ("Table", "RecordBatch"), _pyarrow),
    ):
        module = sys.modules.get(package)  # who holds such a table has imported it
        if module is not None and isinstance(records, tuple(getattr(module, kind) for kind in kinds)):
            return opened(records, column, wanted)
    raise RecordsError(
        f"records of type {type(records).__qualname__} are not supported; give a path to a .csv or .parquet file, a pandas "
        "or polars frame, a pyarrow table or a DuckDB relation."
    )


def _check_column(names: list[str], column: str) -> None:
    if names.count(column) != 1:
        fault = "there is no column" if column not in names else "there is more than one column"
        raise RecordsError(
            f"{fault} {column!r}; check the name."
        )  # others are not shown: of a file without a header they are a record


def _file(path: Path, column: str, wanted: Wanted) -> Source:
    try:
        if not path.is_file():
            raise RecordsError(f"{path} is a folder; give a file." if path.is_dir() else f"there is no file {path}.")
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise RecordsError(f"cannot read {path}: {error.strerror}.") from None
    if not os.access(path, os.R_OK):
        raise RecordsError(f"the file {path} may not be read; check its permissions.")
    literal = glob.escape(str(path))  # a * in a file's name is no pattern, and c0=5 in a folder's name no column
    if path.suffix.lower() in (".parquet", ".pq"):
        fault = f"{path} is not a readable Parquet file."
        return _typed(lambda connection: connection.read_parquet(literal, hive_partitioning=False), column, wanted, fault)
    if path.suffix.lower() == ".csv":
        return _csv(path, literal, column, wanted)
    raise RecordsError(f"{path} is neither .csv nor .parquet; convert it, or give a table from Python.")


def _csv(path: Path, literal: str, column: str, wanted: Wanted) -> Source:
    names = shielded(lambda: csvfile.header(path), csvfile.BROKEN_CSV)
    if names.count(column) != 1:
        raise RecordsError(
            f"the first line of {path} must name the column {column!r} once, with commas between the names; check both."
        )
    position = names.index(column)
    return _typed(lambda connection: csvfile.read(connection, literal, len(names)), f"c{position}", wanted, csvfile.BROKEN_CSV)


def _polars(records: Any, column: str, wanted: Wanted) -> Source:
    schema = shielded(records.collect_schema)
    _check_column(list(schema.names()), column)

    def collect() -> Any:
        one = records.lazy().select(column)
        strange = str(schema[column]) in ("Float16", "Int128", "UInt128")  # to DuckDB
        return (one.cast(float) if strange else one).collect()

    frame = shielded(collect)
    return _typed(lambda connection: connection.from_arrow(frame), column, wanted, _wrong_type(column))


def _pyarrow(records: Any, column: str, wanted: Wanted) -> Source:
    import pyarrow as pa

    _check_column(list(records.schema.names), column)

    def known() -> Any:
        kind = records.schema.field(column).type
        one = pa.table({column: records.column(column)})
        unknown = pa.types.is_float16(kind) or pa.types.is_decimal256(kind)  # to DuckDB
        return one.cast(pa.schema([(column, pa.float64())])) if unknown else one

    table = shielded(known)
    return _typed(lambda connection: connection.from_arrow(table), column, wanted, _wrong_type(column))


class _Stream:
    """A relation of the user's connection as nothing but a stream of Arrow data, which another connection may read."""

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._relation.__arrow_c_stream__(requested_schema)


def _relation(records: duckdb.DuckDBPyRelation, column: str, wanted: Wanted) -> Source:
    """Read on a connection of our own: the user's may have a collation that merges labels, or settings that make 1/0 an error."""
    names = shielded(lambda: list(records.columns), "the relation cannot be read; is its connection open?")
    _check_column(names, column)
    if [name.casefold() for name in names].count(column.casefold()) > 1:
        raise RecordsError(f"another column's name differs from {column!r} only in case; DuckDB takes them for one. Rename one.")
    kind = shielded(lambda: _kind(records, column))
    if kind not in (*_TEXT, *_NUMBERS, "BOOLEAN"):
        raise RecordsError(_wrong_type(column))
    name = _quoted(column)
    plain = f"CAST({name} AS VARCHAR)" if kind in _TEXT else f"TRY_CAST({name} AS DOUBLE)" if kind in _NUMBERS else name
    stream = _Stream(shielded(lambda: records.project(f"{plain} AS value")))
    return _typed(lambda connection: connection.from_arrow(stream), "value", wanted, UNREADABLE)


def _typed(read: Source, column: str, wanted: Wanted, fault: str) -> Source:
    """`value` from a column whose type is declared by a schema; a type that holds no numbers and no text is refused."""

    def schema() -> tuple[list[str], str]:
        with connect() as connection:
            table = read(connection)
            return list(table.columns), _kind(table, column)

    names, kind = shielded(schema, fault)
    _check_column(names, column)
    name = _quoted(column)
    if kind in _TEXT:
        text = f"CAST({name} AS VARCHAR)"
        value = key_of_text(text) if wanted == "text" else _number_of_text(text)
    elif kind == "BOOLEAN" and wanted == "text":
        value = f"CAST({name} AS VARCHAR)"
    elif kind in ("BOOLEAN", *_NUMBERS):
        number = name if kind == "DOUBLE" else f"TRY_CAST({name} AS DOUBLE)"
        value = number if wanted == "number" else _key_of_number(number)
    else:
        raise RecordsError(_wrong_type(column))
    return lambda connection: read(connection).project(f"{value} AS value")


def _kind(table: duckdb.DuckDBPyRelation, column: str) -> str:
    """The column's type without its settings, such as DECIMAL; none for a column that is not there."""
    kinds = dict(zip(table.columns, table.types, strict=True))
    return str(kinds.get(column, "")).split("(")[0]


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _wrong_type(column: str) -> str:
    return f"column {column!r} has a type that holds neither numbers nor text; choose another column."


def _number_of_text(text: str) -> str:
    boolean = f"CASE lower(trim({text})) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
    return f"coalesce(TRY_CAST({text} AS DOUBLE), {boolean})"


def key_of_text(text: str) -> str:
    """What a label is matched by: true and false in any case, a number by its value, other text by itself; NULL is missing.

    So it does not matter whether a table holds 1.5, '1.5' or '1.50': one odd record could change which.
    """
    word, number = f"lower(trim({text}))", f"TRY_CAST({text} AS DOUBLE)"
    other = f"WHEN {number} IS NOT NULL THEN {_key_of_number(number)} ELSE 'text ' || {text}"
    return f"CASE WHEN {word} IN ('true', 'false') THEN {word} {other} END"


def _key_of_number(number: str) -> str:
    return f"CASE WHEN NOT isnan({number}) THEN 'number ' || CAST({number} + 0 AS VARCHAR) END"  # + 0: no negative zero


def _pandas(records: Any, column: str, wanted: Wanted) -> Source:
    """pandas has no schema to trust: whatever the dtype, each value is taken for what it is, and nothing is refused."""
    import pandas

    _check_column(list(records.columns), column)
    series = records[column]

    def values() -> Any:
        if getattr(series.dtype, "kind", "O") in ("iuf" if wanted == "text" else "biuf"):
            return pandas.DataFrame({"number": series.to_numpy(dtype="float64", na_value=np.nan)})
        pairs = [_value(item, wanted) for item in series.to_numpy(dtype=object)]
        texts = np.empty(len(pairs), dtype=object)  # filled one by one: NumPy and pandas would guess a type
        texts[:] = [text for _, text in pairs]
        return pandas.DataFrame({"number": np.array([number for number, _ in pairs], dtype="float64"), "text": texts})

    frame = shielded(values)
    number = "CASE WHEN NOT isnan(number) THEN number END"
    text = "CAST(text AS VARCHAR)" if "text" in frame else "NULL::VARCHAR"
    value = f"{number}, {_number_of_text(text)}" if wanted == "number" else f"{_key_of_number(number)}, {key_of_text(text)}"
    return lambda connection: connection.from_df(frame).project(f"coalesce({value}) AS value")


def _value(item: Any, wanted: Wanted) -> tuple[float, str | None]:
    """One Python object as (number, text); (NaN, None) is missing."""
    if isinstance(item, str):
        return np.nan, item if _encodes(item) else None
    if isinstance(item, (bool, np.bool_)):
        return (np.nan, str(bool(item)).lower()) if wanted == "text" else (float(item), None)
    if isinstance(item, (complex, np.complexfloating)) and item.imag == 0:  # one complex record makes the others so
        item = float(item.real)
    if isinstance(item, (numbers.Real, Decimal)):
        with suppress(TypeError, ValueError):  # a duration, a signalling NaN
            try:
                return float(item), None
            except OverflowError:
                return float(np.copysign(np.inf, 1 if item > 0 else -1)), None  # type: ignore[operator]
    return np.nan, None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no CSV or Parquet file can hold
        return False
    return True
