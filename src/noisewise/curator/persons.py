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
SEATS = 23
"""So many bits of a person's digest, the first, are a seat: the table of all seats, 8 MB, is looked
at once for each record and stays in a processor's cache.
"""
TOGETHER = 1 << 17
"""So many records look for their seats at once: what that takes stays in the cache too."""


def bounded(
    connection: duckdb.DuckDBPyConnection, records: duckdb.DuckDBPyRelation, persons: Persons
) -> duckdb.DuckDBPyRelation:
    """The records that are kept, without their person. Those of nobody are not.

    All are held while they are chosen from, because a table that is read twice need not be the
    same.
    """
    names = [name for name in records.columns if name != "person"]
    columns, digest = ", ".join(map(quoted, names)), _digest(records, names)
    known = "SELECT * FROM records WHERE person IS NOT NULL"
    records.query("records", f"CREATE TEMP TABLE held AS {known}")
    heads = connection.sql("SELECT (person >> 31)::UINTEGER AS head FROM held").fetchnumpy()["head"]
    crowded = in_crowded_seats(heads, persons.most)
    kept = ~crowded
    # heads are compared, so that nothing that is said of one person is taken for another's
    beside = "FROM held POSITIONAL JOIN {} AS said WHERE held.person >> 31 = said.head AND said.so"
    if not kept.all():
        connection.register("crowd", {"head": heads, "so": crowded})
        found = connection.sql(
            f"SELECT held.rowid AS row, person {beside.format('crowd')} ORDER BY person, {digest}"
        ).fetchnumpy()
        row, person = found["row"], found["person"]
        if not np.array_equal(heads[row], person >> 31):
            raise ValueError("rows are not where they were")
        kept[row[evenly_spaced(person, persons.most)]] = True
    if kept.all():
        return connection.sql(f"SELECT {columns} FROM held")
    connection.register("choice", {"head": heads, "so": kept})
    return connection.sql(f"SELECT {columns} {beside.format('choice')}")


def _digest(records: duckdb.DuckDBPyRelation, names: list[str]) -> str:
    """Of all that is read of a record; what means the same has the same: NaN is missing, as NULL
    is.
    """
    alike = [
        f"CASE WHEN NOT isnan({name}) THEN {name} END" if kind == "DOUBLE" else name
        for name, kind in ((quoted(name), kind_of(records, name)) for name in names)
    ]
    return f"hash({', '.join(alike)})"


def in_crowded_seats(heads: NDArray[np.uint32], most: int) -> Bools:
    """Every record of a person with more than `most` of them, and some others: those whose person
    shares the seat of such a one, or of several who have too many together.

    Sorting the first bits of digests takes a tenth of the time in which a database counts them.
    """
    ordered = np.sort(heads)
    too_many = ordered[most:][ordered[most:] == ordered[:-most]]
    seats = np.zeros(1 << SEATS, dtype=bool)
    seats[too_many >> (32 - SEATS)] = True
    crowded = np.zeros(len(heads), dtype=bool)
    if len(too_many):
        for start in range(0, len(heads), TOGETHER):
            some = slice(start, start + TOGETHER)
            crowded[some] = seats[heads[some] >> (32 - SEATS)]
    return crowded


def evenly_spaced(person: NDArray[np.int64], most: int) -> Bools:
    """Which records are kept, of such as lie together by person: all of a person with at most
    `most`, and every m/most-th of a person with m.
    """
    first = np.flatnonzero(np.diff(person, prepend=-1))
    m = np.diff(first, append=len(person))
    kept = np.repeat(m <= most, m)
    first, m = first[m > most], m[m > most]
    start = person[first] % m
    # those at which place + start passes a multiple of m/most: so many in any m places
    turns = (start * most // m)[:, None] + np.arange(1, most + 1)
    places = -(-turns * m[:, None] // most) - 1 - start[:, None]
    kept[first[:, None] + places] = True
    return kept


def keys_of(part: Any, column: str) -> list[str | None]:
    """Whose each record of a part is, in its order: keys that are the same in every part."""
    with connect() as connection:
        person = open_columns(part, {"person": (column, "person")})(connection)
        return [key for (key,) in person.project("CAST(person AS VARCHAR)").fetchall()]
