"""So many records of each person at most, chosen by what that person's own records say.

The records of a person with too many are put in order, and every m/k-th is kept, from a start that
the person's name decides: each with the same chance, the same wherever the records lie, and no
other person's records have a say. The order is that of a digest of all that is read of a record,
and of what is read itself where two have one digest. Records that are alike in all that is read are
alike in what they contribute, so it does not matter which of them comes first.

Persons are told apart by a digest of their name first, and by the name itself where two have one
digest: nobody can choose records or a name that make another's records be kept or not.
"""

from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from noisewise.curator.database import connect
from noisewise.curator.reading import Persons
from noisewise.curator.records import open_columns
from noisewise.curator.schema import kind_of, quoted
from noisewise.curator.values import digest_of_person

Bools: TypeAlias = NDArray[np.bool_]
"""Something that is true or false of each record."""
Integers: TypeAlias = NDArray[np.int64]
"""Places of records."""
Digests: TypeAlias = NDArray[np.uint64]
"""Of the person whose each record is."""
FAILED = "+0"
"""In place of a person, where a part of a cluster's records could not be read: whoever is zero is
"0".
"""
SEATS = 23
"""So many bits of a person's digest at most, the first, are a seat: the table of all seats, 8 MB,
is looked at once for each record and stays in a processor's cache.
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
    columns, alike = ", ".join(map(quoted, names)), ", ".join(_alike(records, names))
    digest = digest_of_person("person", kind_of(records, "person"))
    known = "SELECT * FROM records WHERE person IS NOT NULL"
    records.query("records", f"CREATE TEMP TABLE held AS {known}")
    heads = connection.sql(
        f"SELECT rowid AS place, ({digest} >> 32)::UINTEGER AS head FROM held"
    ).fetchnumpy()
    crowded = in_crowded_seats(heads["head"], persons.most)
    if not crowded.any():
        return connection.sql(f"SELECT {columns} FROM held")
    connection.register("places", {"row": heads["place"][crowded]})
    connection.execute(
        f"""CREATE TEMP TABLE crowd AS SELECT held.rowid AS place, {digest} AS digest, held.*
        FROM held SEMI JOIN places ON held.rowid = places.row"""
    )
    found = connection.sql(
        f"SELECT place, digest FROM crowd ORDER BY digest, person, hash({alike}), {alike}"
    ).fetchnumpy()
    row, digests = found["place"], found["digest"]
    shared = connection.sql(
        """SELECT place, person FROM crowd WHERE digest IN (
            SELECT digest FROM crowd GROUP BY digest HAVING min(person) <> max(person))"""
    ).fetchall()
    first = firsts(row, digests, dict(shared))
    dropped = row[~evenly_spaced(first, digests, persons.most)]
    connection.register("dropped", {"row": dropped})
    return connection.sql(
        f"SELECT {columns} FROM held ANTI JOIN dropped ON held.rowid = dropped.row"
    )


def _alike(records: duckdb.DuckDBPyRelation, names: list[str]) -> list[str]:
    """All that is read of a record; what means the same is the same: NaN is missing, as NULL is."""
    return [
        f"CASE WHEN NOT isnan({name}) THEN {name} END" if kind == "DOUBLE" else name
        for name, kind in ((quoted(name), kind_of(records, name)) for name in names)
    ]


def in_crowded_seats(heads: NDArray[np.uint32], most: int) -> Bools:
    """Every record of a person with more than `most` of them, and some others: those whose person
    shares the seat of such a one, or of several who have too many together.

    Sorting the first bits of digests takes a tenth of the time in which a database counts them.
    """
    ordered = np.sort(heads)
    later = ordered[most:]
    earlier = ordered[: len(later)]
    blocks = [slice(start, start + TOGETHER) for start in range(0, len(heads), TOGETHER)]
    too_many = [later[some][later[some] == earlier[some]] for some in blocks]
    crowded = np.zeros(len(heads), dtype=bool)
    number = sum(map(len, too_many))
    if number:
        # many more seats than are crowded, so that few sit there who need not
        beyond = 32 - min(number.bit_length() + 6, SEATS)
        seats = np.zeros(1 << (32 - beyond), dtype=bool)
        seats[np.concatenate(too_many) >> beyond] = True
        for some in blocks:
            # every seat is in the table; where NumPy need not see to that, it is twice as fast
            np.take(seats, heads[some] >> beyond, out=crowded[some], mode="clip")
    return crowded


def firsts(row: Integers, digests: Digests, shared: dict[int, Any]) -> Integers:
    """Where each person's records begin, of such as lie in order of digest and person; `shared` are
    the persons of rows whose digest is that of several.
    """
    new = np.diff(digests, prepend=~digests[:1]) != 0
    if shared:
        for place in np.flatnonzero(np.isin(row, list(shared))[1:] & ~new[1:]) + 1:
            new[place] = shared[int(row[place])] != shared[int(row[place - 1])]
    return np.flatnonzero(new)


def evenly_spaced(first: Integers, digests: Digests, most: int) -> Bools:
    """Which records are kept, of persons that begin at `first` and have these digests: all of a
    person with at most `most`, and every m/most-th of a person with m.
    """
    m = np.diff(first, append=len(digests))
    kept = np.repeat(m <= most, m)
    first, m = first[m > most], m[m > most]
    start = (digests[first] % m.astype(np.uint64)).astype(np.int64)
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
