"""Databases of our own, in memory, each with nobody else in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import duckdb

_IDLE: list[duckdb.DuckDBPyConnection] = []
"""The database that served last, if nobody is in it: one at most."""
_FORKING = RLock()
"""Held while a process forks, and while a database is taken or put back."""


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

    What a file says of its columns decides nothing about a value. A Parquet file's largest number
    leaves NaN out, and a DuckDB that trusts it takes NaN for a number within the bounds: what is
    not missing would decide what all missing records contribute.
    """
    safe = {"temp_directory": "", "enable_external_file_cache": "false"}
    safe |= {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    safe |= {"disabled_optimizers": "statistics_propagation"}
    return duckdb.connect(":memory:", config=safe)


def _before_fork() -> None:
    """Its threads would be missing in the child, which would crash when it ends."""
    _FORKING.acquire()
    _IDLE.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_FORKING.release, after_in_child=_FORKING.release
)
