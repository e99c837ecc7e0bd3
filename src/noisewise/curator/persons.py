"""So many records of each person at most, chosen by what that person's own records say.

The records of a person with too many are put in order by a digest of all that is read of them, and
every m/k-th is kept, from a start that the person's name decides: each with the same chance, the
same wherever the records lie, and no other person's records have a say. Records that are alike in
all that is read are alike in what they contribute, so it does not matter which of them comes first.

A person is a digest of their name. Should two persons have the same, they are one: both together
keep so many records, and the guarantee holds for each of them.
"""

from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from noisewise.curator.database import connect
from noisewise.curator.reading import Persons
from noisewise.curator.records import open_columns
from noisewise.curator.schema import kind_of, quoted

Bools: TypeAlias = NDArray[np.bool_]
"""Something that is true or false of each record."""
FAILED = -1
"""In place of a person, where a part of a cluster's records could not be read: nobody is below
0.
"""
LAST = 16
"""So many bits of a person's digest, the last of 63, make room for a record's. Of 5 million persons
there is with a chance of a tenth one pair that differs in these alone.
"""
SEATS = 24
"""So many bits of a person's digest, the first, are a seat: the table of all seats, 16 MB, is looked
at once for each record and stays in a processor's cache.
"""


def bounded(
    connection: duckdb.DuckDBPyConnection, records: duckdb.DuckDBPyRelation, persons: Persons
) -> duckdb.DuckDBPyRelation:
    """The records that are kept, without their person. Those of nobody are not.

    All are held while they are chosen from, because a table that is read twice need not be the
    same.
    """
    names = [name for name in records.columns if name != "person"]
    columns = ", ".join(map(quoted, names))
    known = "SELECT * FROM records WHERE person IS NOT NULL"
    records.query("records", f"CREATE TEMP TABLE held AS {known}")
    heads = connection.sql("SELECT (person >> 31)::UINTEGER AS head FROM held").fetchnumpy()["head"]
    crowded = in_crowded_seats(heads, persons.most)
    if not crowded.any():
        return connection.sql(f"SELECT {columns} FROM held")
    # heads are compared, so that nothing that is said of one person is taken for another's
    beside = "FROM held POSITIONAL JOIN {} AS said WHERE held.person >> 31 = said.head AND said.so"
    connection.register("crowd", {"head": heads, "so": crowded})
    digest = f"hash({', '.join(_alike(records, name) for name in names)})"
    found = connection.sql(
        f"SELECT person, {digest} AS digest {beside.format('crowd')}"
    ).fetchnumpy()
    kept = ~crowded
    kept[crowded] = chosen(found["person"], found["digest"], persons.most)
    connection.register("choice", {"head": heads, "so": kept})
    return connection.sql(f"SELECT {columns} {beside.format('choice')}")


def _alike(records: duckdb.DuckDBPyRelation, name: str) -> str:
    """A column in which what means the same is the same: NaN is missing, as NULL is."""
    column = quoted(name)
    if kind_of(records, name) != "DOUBLE":
        return column
    return f"CASE WHEN NOT isnan({column}) THEN {column} END"


def in_crowded_seats(heads: NDArray[np.uint32], most: int) -> Bools:
    """Every record of a person with more than `most` of them, and a few others: those whose
    person's digest starts as that of such a one, or of several who have too many together.

    Sorting the heads alone takes a seventh of the time in which a database counts them.
    """
    ordered = np.sort(heads)
    too_many = ordered[most:][ordered[most:] == ordered[:-most]]
    seats = np.zeros(1 << SEATS, dtype=bool)
    seats[too_many >> (32 - SEATS)] = True
    return seats[heads >> (32 - SEATS)] if len(too_many) else np.zeros(len(heads), dtype=bool)


def chosen(person: NDArray[np.int64], digest: NDArray[np.uint64], most: int) -> Bools:
    """Which records are kept: all of a person with at most `most`, and else every m/most-th of the
    m, in the order of their digests.
    """
    order, whose = _in_order(person, digest)
    first = np.flatnonzero(np.diff(whose, prepend=-1))
    m = np.diff(first, append=len(whose))
    kept = np.empty(len(whose), dtype=bool)
    kept[order] = np.repeat(m <= most, m)
    first, m = first[m > most], m[m > most]
    start = whose[first] % m
    # place + start crosses a multiple of m/most; there are as many of them in each m places
    turns = (start * most // m)[:, None] + np.arange(1, most + 1)
    places = -(-turns * m[:, None] // most) - 1 - start[:, None]
    kept[order[first[:, None] + places]] = True
    return kept


def _in_order(
    person: NDArray[np.int64], digest: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order by person and then by digest, and whose the records are in it.

    NumPy sorts one number much faster than two: first by the first bits of both, and then those
    that have the same ones but are unlike.
    """
    start = (person >> LAST << LAST) | (digest >> np.uint64(64 - LAST)).astype(np.int64)
    order = np.argsort(start)
    start, digest = start[order], digest[order]
    unlike = (np.diff(start) == 0) & (digest[1:] != digest[:-1])
    for same in np.unique(start[1:][unlike]):
        run = slice(*np.searchsorted(start, [same, same + 1]))
        order[run] = order[run][np.argsort(digest[run])]
    return order, start >> LAST


def keys_of(part: Any, column: str) -> list[str | None]:
    """Whose each record of a part is, in its order: keys that are the same in every part."""
    with connect() as connection:
        person = open_columns(part, {"person": (column, "person")})(connection)
        return [key for (key,) in person.project("CAST(person AS VARCHAR)").fetchall()]
