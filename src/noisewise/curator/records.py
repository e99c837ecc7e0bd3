"""Records from wherever they are, as DuckDB columns of numbers or of text.

What a value means does not depend on the column's type, because one changed record can change that
type (a null turns pandas integers into floats, a word turns them into objects). As a number: true
is 1, false is 0, text is parsed by DuckDB, anything else is missing. As a label: see `key_of_text`.
"""

import glob
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import reduce
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeAlias, TypeVar, final

import duckdb
import numpy as np

from noisewise.curator import csvfile
from noisewise.errors import NoisewiseError, RecordsError

Wanted = Literal["number", "text"]
Columns: TypeAlias = Mapping[str, tuple[str, Wanted]]
"""What is read: the column and the form wanted of it, under a name of ours."""
Source: TypeAlias = Callable[[duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]
"""Gives the records anew, lazily, on a connection: a relation with the columns under our names."""
T = TypeVar("T")

UNREADABLE = (
    "the records cannot be read; check that the file is whole and of the kind that its name says."
)
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
_PARQUET = (".parquet", ".pq")
_TEXT = ("VARCHAR", "ENUM", "NULL", '"NULL"')


@final
class _Calm:
    """While anybody is within, no warning is shown or raised: whether one comes may depend on a
    record, and the caller may have made errors of them. Python's filters are the whole process's:
    the first to enter puts them aside, the last puts them back.
    """

    def __init__(self) -> None:
        self._lock, self._within, self._filters = RLock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._within == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                self._filters.__exit__(None, None, None)


CALM = _Calm()


def shielded(
    call: Callable[[], T], sentence: str = UNREADABLE, kind: type[NoisewiseError] = RecordsError
) -> T:
    """Run an engine; whatever it raises becomes one fixed sentence, since its own words may quote a
    record.
    """
    try:
        with CALM, np.errstate(all="ignore"):
            return call()
    except (KeyboardInterrupt, SystemExit):
        raise
    # any class, and polars panics with one of its own: which one may tell of a record
    except BaseException as error:
        # DuckDB's words for Ctrl-C
        interrupted = type(error) is RuntimeError and _says(error, "Query interrupted")
    if interrupted:
        raise KeyboardInterrupt
    raise kind(sentence)  # outside the handler, so that the engine's error is not chained to it


def _says(error: BaseException, words: str) -> bool:
    """Whether an error holds those words and nothing else. Only text is compared: another object
    might run code of its own.
    """
    return len(error.args) == 1 and type(error.args[0]) is str and error.args[0] == words


_IDLE: list[duckdb.DuckDBPyConnection] = []
_FORKING = RLock()


@contextmanager
def connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database of our own with nobody else in it.

    One that served is kept for the next, because opening it takes longer than reading a small
    table. One that failed is not: a fault of DuckDB's own closes a database for all who are in it,
    and quotes itself to them.
    """
    with _FORKING:
        database = _IDLE.pop() if _IDLE else _open()
    with database.cursor() as connection:
        yield connection
    with _FORKING:
        if not _IDLE:
            _IDLE.append(database)


def _open() -> duckdb.DuckDBPyConnection:
    """In memory, and it keeps nothing: no spill to disk, where records would outlive the process,
    and no settings of others.
    """
    safe = {"temp_directory": "", "enable_external_file_cache": "false"}
    safe |= {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(":memory:", config=safe)


def _before_fork() -> None:
    """Its threads would be missing in the child, which would crash when it ends."""
    _FORKING.acquire()
    _IDLE.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_FORKING.release, after_in_child=_FORKING.release
)


def open_columns(records: Any, columns: Columns) -> Source:
    """The columns under our names: each a DOUBLE, or the key of a label as VARCHAR. NULL is
    missing, and so is NaN.
    """
    if isinstance(records, (str, os.PathLike)):
        return _file(Path(records), columns)
    if isinstance(records, duckdb.DuckDBPyRelation):
        return _relation(records, columns)
    for package, kinds, opened in (
        ("pandas", ("DataFrame",), _pandas),
        ("polars", ("DataFrame", "LazyFrame"), _polars),
        ("pyarrow", ("Table", "RecordBatch"), _pyarrow),
    ):
        module = sys.modules.get(package)  # who holds such a table has imported it
        if module is not None and isinstance(
            records, tuple(getattr(module, kind) for kind in kinds)
        ):
            return opened(records, columns)
    raise RecordsError(
        f"records of type {type(records).__qualname__} are not supported; give a path to a .csv or "
        ".parquet file or to a folder "
        "of .parquet files, a pandas or polars frame, a pyarrow table, a DuckDB relation, a Spark "
        "or a Dask frame."
    )


def check_columns(names: list[str], columns: Columns) -> None:
    for column, _ in columns.values():
        _check_column(names, column)


def _check_column(names: list[str], column: str) -> None:
    if names.count(column) != 1:
        fault = "there is no column" if column not in names else "there is more than one column"
        raise RecordsError(
            f"{fault} {column!r}; check the name."
        )  # others are not shown: of a file without a header they are a record


def _file(path: Path, columns: Columns) -> Source:
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
            f"{path} is a folder and can be read if it holds .parquet files alone; "
            "give such a one, or a file."
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
        found: dict[tuple[object, ...], list[str]] = {}
        with connect() as connection:
            for name in map(_literal, files):
                table = connection.read_parquet(name, hive_partitioning=False)
                kinds = dict(zip(table.columns, map(str, table.types), strict=True))
                found.setdefault(
                    tuple(kinds.get(column) for column, _ in columns.values()), []
                ).append(name)
                wide = "SELECT name FROM parquet_schema(?) WHERE precision > 38"
                rounded.extend(column for (column,) in connection.execute(wide, [name]).fetchall())
        return list(found.values())

    def read(names: list[str]) -> Source:
        return _typed(
            lambda connection: connection.read_parquet(names, hive_partitioning=False),
            columns,
            fault,
        )

    rounded: list[str] = []  # DuckDB takes such decimals for doubles, one digit off the nearest
    parts = [read(names) for names in shielded(alike, fault)]
    for column, _ in columns.values():
        if column in rounded:
            raise RecordsError(
                f"column {column!r} holds decimals of more than 38 digits; write it "
                "with fewer, or as text."
            )
    return lambda connection: reduce(
        duckdb.DuckDBPyRelation.union, [part(connection) for part in parts]
    )


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
    return _typed(
        lambda connection: csvfile.read(connection, literal, len(names)), placed, csvfile.BROKEN_CSV
    )


def _polars(records: Any, columns: Columns) -> Source:
    schema = shielded(records.collect_schema)
    check_columns(list(schema.names()), columns)

    def collect() -> Any:
        chosen = list(dict.fromkeys(column for column, _ in columns.values()))
        # to DuckDB
        strange = [name for name in chosen if str(schema[name]) in ("Float16", "Int128", "UInt128")]
        return records.lazy().select(chosen).cast(dict.fromkeys(strange, float)).collect()

    frame = shielded(collect)
    return _typed(lambda connection: connection.from_arrow(frame), columns, _wrong_types(columns))


def _pyarrow(records: Any, columns: Columns) -> Source:
    import pyarrow as pa

    check_columns(list(records.schema.names), columns)

    def known() -> Any:
        made = {}
        for column, _ in columns.values():
            kind, one = records.schema.field(column).type, records.column(column)
            # unknown to DuckDB; as text it is rounded as a shorter decimal would be
            if pa.types.is_decimal256(kind):
                one = one.cast(pa.string())
            made[column] = one.cast(pa.float64()) if pa.types.is_float16(kind) else one
        return pa.table(made)

    table = shielded(known)
    return _typed(lambda connection: connection.from_arrow(table), columns, _wrong_types(columns))


class _Stream:
    """A relation of the user's connection as nothing but a stream of Arrow data, which another
    connection may read.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._relation.__arrow_c_stream__(requested_schema)


def _relation(records: duckdb.DuckDBPyRelation, columns: Columns) -> Source:
    """Read on a connection of our own: the user's may have a collation that merges labels, or
    settings that make 1/0 an error.
    """
    names = shielded(
        lambda: list(records.columns), "the relation cannot be read; is its connection open?"
    )
    check_columns(names, columns)
    plain = []
    for ours, (column, _) in columns.items():
        if [name.casefold() for name in names].count(column.casefold()) > 1:
            raise RecordsError(
                f"another column's name differs from {column!r} only in case: one "
                "to DuckDB. Rename one."
            )
        kind, name = shielded(lambda column=column: _kind(records, column)), _quoted(column)  # type: ignore[misc]
        if kind not in (*_TEXT, *_NUMBERS, "BOOLEAN"):
            raise RecordsError(wrong_type(column))
        value = (
            f"CAST({name} AS VARCHAR)"
            if kind in _TEXT
            else f"TRY_CAST({name} AS DOUBLE)"
            if kind in _NUMBERS
            else name
        )
        plain.append(f"{value} AS {ours}")
    stream = _Stream(shielded(lambda: records.project(", ".join(plain))))
    ours_alone: Columns = {ours: (ours, wanted) for ours, (_, wanted) in columns.items()}
    return _typed(lambda connection: connection.from_arrow(stream), ours_alone, UNREADABLE)


def _typed(read: Source, columns: Columns, fault: str) -> Source:
    """Columns whose types are declared by a schema; a type that holds no numbers and no text is
    refused.
    """

    def schema() -> tuple[list[str], dict[str, str]]:
        with connect() as connection:
            table = read(connection)
            return list(table.columns), {
                column: _kind(table, column) for column, _ in columns.values()
            }

    names, kinds = shielded(schema, fault)
    check_columns(names, columns)
    values = []
    for ours, (column, wanted) in columns.items():
        kind, name = kinds[column], _quoted(column)
        if kind in _TEXT:
            text = f"CAST({name} AS VARCHAR)"
            value = key_of_text(text) if wanted == "text" else _number_of_text(text)
        elif kind == "BOOLEAN" and wanted == "text":
            value = f"CAST({name} AS VARCHAR)"
        elif kind in ("BOOLEAN", *_NUMBERS):
            number = name if kind == "DOUBLE" else f"TRY_CAST({name} AS DOUBLE)"
            value = number if wanted == "number" else _key_of_number(number)
        else:
            raise RecordsError(wrong_type(column))
        values.append(f"{value} AS {ours}")
    return lambda connection: read(connection).project(", ".join(values))


def _kind(table: duckdb.DuckDBPyRelation, column: str) -> str:
    """The column's type without its settings, such as DECIMAL; none for a column that
    is not there.
    """
    kinds = dict(zip(table.columns, table.types, strict=True))
    return str(kinds.get(column, "")).split("(")[0]


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def wrong_type(column: str) -> str:
    return (
        f"column {column!r} has a type that holds neither numbers nor text; choose another column."
    )


def _wrong_types(columns: Columns) -> str:
    return wrong_type(next(iter(columns.values()))[0])


def _number_of_text(text: str) -> str:
    boolean = f"CASE lower(trim({text})) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
    return f"coalesce(TRY_CAST({text} AS DOUBLE), {boolean})"


def key_of_text(text: str) -> str:
    """What a label is matched by: true and false in any case, a number by its value, other text by
    itself; NULL is missing.

    So it does not matter whether a table holds 1.5, '1.5' or '1.50': one odd record could change
    which.
    """
    word, number = f"lower(trim({text}))", f"TRY_CAST({text} AS DOUBLE)"
    other = f"WHEN {number} IS NOT NULL THEN {_key_of_number(number)} ELSE 'text ' || {text}"
    return f"CASE WHEN {word} IN ('true', 'false') THEN {word} {other} END"


def _key_of_number(number: str) -> str:
    # + 0: no negative zero
    return f"CASE WHEN NOT isnan({number}) THEN 'number ' || CAST({number} + 0 AS VARCHAR) END"


def _pandas(records: Any, columns: Columns) -> Source:
    """pandas has no schema to trust: whatever the dtype, each value is taken for what it is, and
    nothing is refused.
    """
    import pandas

    check_columns(list(records.columns), columns)

    def values(column: str, wanted: Wanted) -> tuple[Any, Any]:
        series = records[column]
        if getattr(series.dtype, "kind", "O") in ("iuf" if wanted == "text" else "biuf"):
            return series.to_numpy(dtype="float64", na_value=np.nan), None
        pairs = [_value(item, wanted) for item in series.to_numpy(dtype=object)]
        # filled one by one: NumPy and pandas would guess a type
        texts = np.empty(len(pairs), dtype=object)
        texts[:] = [text for _, text in pairs]
        return np.array([number for number, _ in pairs], dtype="float64"), texts

    held: dict[str, Any] = {}
    chosen = []
    for ours, (column, wanted) in columns.items():
        numbers_of, texts = shielded(lambda column=column, wanted=wanted: values(column, wanted))  # type: ignore[misc]
        held[f"{ours}_number"] = numbers_of
        if texts is not None:
            held[f"{ours}_text"] = texts
        number = f"CASE WHEN NOT isnan({ours}_number) THEN {ours}_number END"
        text = "NULL::VARCHAR" if texts is None else f"CAST({ours}_text AS VARCHAR)"
        either = (
            f"{number}, {_number_of_text(text)}"
            if wanted == "number"
            else f"{_key_of_number(number)}, {key_of_text(text)}"
        )
        chosen.append(f"coalesce({either}) AS {ours}")
    frame = shielded(lambda: pandas.DataFrame(held))
    return lambda connection: connection.from_df(frame).project(", ".join(chosen))


def _value(item: Any, wanted: Wanted) -> tuple[float, str | None]:
    """One Python object as (number, text); (NaN, None) is missing, and so is one whose own code
    fails.
    """
    try:
        return _number_or_text(item, wanted)
    except KeyboardInterrupt:
        raise
    except BaseException:  # any class: it is the record that raises
        return np.nan, None


def _number_or_text(item: Any, wanted: Wanted) -> tuple[float, str | None]:
    if isinstance(item, str):
        text = str.__str__(item)  # of a subclass too, without running its code
        text.encode()  # fails for a lone surrogate, which no CSV or Parquet file can hold
        return np.nan, text
    if isinstance(item, (bool, np.bool_)):
        return (np.nan, str(bool(item)).lower()) if wanted == "text" else (float(item), None)
    # one complex record makes the others so
    if isinstance(item, (complex, np.complexfloating)) and item.imag == 0:
        item = float(item.real)
    # a duration and a signalling NaN have no float, and fail
    if isinstance(item, (numbers.Real, Decimal)):
        try:
            return float(item), None
        except OverflowError:
            return float(np.copysign(np.inf, 1 if item > 0 else -1)), None  # type: ignore[operator]
    return np.nan, None
