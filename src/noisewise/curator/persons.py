"""So many records of each person at most, chosen by what that person's own records say.

The records of a person with too many are put in order of all that is read of them, and every m/k-th
is kept, from a start that the person's number decides: each with the same chance, the same wherever
the records lie, and no other person's records have a say. Records that are alike in all that is
read are alike in what they contribute, so it does not matter which of them comes first.

A person is a number. Of persons with names two may have the same one: those are told apart by their
names, so nobody can choose a name that makes another's records be kept or not.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from noisewise.curator.database import connect
from noisewise.curator.reading import Key, Persons
from noisewise.curator.records import open_columns
from noisewise.curator.schema import kind_of
from noisewise.curator.values import number_of_person
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

FAILED = "+0"
"""In place of a person, where a part of a cluster's records could not be read: whoever is zero is
"0".
"""
HEAD = "(hash(number) >> 32)::UINTEGER"
"""The first bits of a digest of a person: those of two may be the same."""
Heads: TypeAlias = NDArray[np.uint32]
"""Such bits, of many."""
Labels: TypeAlias = Mapping[str, tuple[Key, ...]]
"""The public labels of each column that is text, by its name of ours."""


def bounded(
    connection: duckdb.DuckDBPyConnection,
    records: duckdb.DuckDBPyRelation,
    persons: Persons,
    labels: Labels,
) -> duckdb.DuckDBPyRelation:
    """The records that are kept, without their person. Those of nobody are not; text that is none
    of its column's labels is NULL.

    All are held while they are chosen from, because a table that is read twice need not be the
    same.
    """
    names = [name for name in records.columns if name != "person"]
    lists = {
        name: ", ".join(map(_literal, labels[name]))
        for name in names
        if kind_of(records, name) == "VARCHAR"
    }
    named = kind_of(records, "person") != "BIGINT"
    held = ["person"] if named else []
    held += [f"{_as_number(name, lists.get(name))} AS {name}" for name in names]
    number = number_of_person("person", kind_of(records, "person"))
    known = f"SELECT {number} AS number, {', '.join(held)} FROM records WHERE person IS NOT NULL"
    records.query("records", f"CREATE TEMP TABLE held AS {known}")
    said = ", ".join(_as_said(name, lists.get(name)) for name in names)
    heads = connection.sql(f"SELECT {HEAD} AS head FROM held").fetchnumpy()["head"]
    connection.register("crowded", {"head": crowded_heads(heads, persons.most)})
    kept = _kept_of_crowd(connection, names, persons.most, named)
    if kept is None:
        return connection.sql(f"SELECT {said} FROM held")
    connection.register("kept", kept)
    columns = ", ".join(names)
    return connection.sql(
        f"""SELECT {said} FROM (SELECT {columns} FROM held ANTI JOIN crowded ON {HEAD} = head
        UNION ALL SELECT {columns} FROM kept)"""
    )


def _literal(key: Key) -> str:
    """A label as SQL."""
    return "'" + str(key).replace("'", "''") + "'"


def _as_number(name: str, labels: str | None) -> str:
    """A number, NaN where it is missing; or the place of a label, from 1 on, and 0 of other
    text.
    """
    if labels is None:
        return f"coalesce({name} + 0, 'nan'::DOUBLE)"  # + 0: no negative zero
    return f"coalesce(enum_code(TRY_CAST({name} AS ENUM({labels}))) + 1, 0)::DOUBLE"


def _as_said(name: str, labels: str | None) -> str:
    """What was made a number above."""
    return name if labels is None else f"([{labels}])[{name}::INTEGER] AS {name}"


def _kept_of_crowd(
    connection: duckdb.DuckDBPyConnection, names: list[str], most: int, named: bool
) -> dict[str, FloatArray] | None:
    """The records that are kept of persons whose heads are crowded; None where all are."""
    columns = ", ".join(names)
    crowd = f"held SEMI JOIN crowded ON {HEAD} = head"
    ordered = f"ORDER BY number, {columns}"
    if not named:
        found = [connection.sql(f"SELECT number, {columns} FROM {crowd} {ordered}").fetchnumpy()]
    else:
        several = "GROUP BY number HAVING min(person) <> max(person)"
        shared = connection.sql(f"SELECT number FROM {crowd} {several}").fetchnumpy()
        connection.register("shared", shared)
        alone = f"SELECT number, {columns} FROM {crowd} ANTI JOIN shared USING (number) {ordered}"
        by_name = f"""SELECT person, number, {columns} FROM held SEMI JOIN shared USING (number)
            ORDER BY person, {columns}"""
        found = [connection.sql(query).fetchnumpy() for query in (alone, by_name)]
    kept = [_kept(one.get("person", one["number"]), one["number"], most) for one in found]
    if all(one.all() for one in kept):
        return None
    return {
        name: np.concatenate([one[name][own] for one, own in zip(found, kept, strict=True)])
        for name in names
    }


def _kept(person: NDArray[Any], number: IntArray, most: int) -> BoolArray:
    new = np.ones(len(person), dtype=bool)
    new[1:] = person[1:] != person[:-1]
    return evenly_spaced(new, number, most)


def crowded_heads(heads: Heads, most: int) -> Heads:
    """Those of more than `most` records. The heads are sorted where they lie, which takes a tenth
    of the time in which a database counts them.
    """
    heads.sort()
    later, earlier = heads[most:], heads[:-most]
    found = later[later == earlier]
    each: Heads = found[np.diff(found, prepend=~found[:1]) != 0]
    return each


def evenly_spaced(new: BoolArray, number: IntArray, most: int) -> BoolArray:
    """Which records are kept, of such as lie in order, a person's where `new` begins: all of a
    person with at most `most`, and every m/most-th of a person with m, from a start that the
    person's number decides.
    """
    first = np.flatnonzero(new)
    m = np.diff(first, append=len(new))
    kept = np.repeat(m <= most, m)
    first, m = first[m > most], m[m > most]
    start = (_digest(number[first]) % m.astype(np.uint64)).astype(np.int64)
    # those at which place + start passes a multiple of m/most: so many in any m places
    turns = (start * most // m)[:, None] + np.arange(1, most + 1)
    places = -(-turns * m[:, None] // most) - 1 - start[:, None]
    kept[first[:, None] + places] = True
    return kept


def _digest(number: IntArray) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea & Flood 2014): numbers that follow each other are turned into such in
    which no order is seen.
    """
    x = number.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def keys_of(part: Any, column: str) -> list[str | None]:
    """Whose each record of a part is, in its order: keys that are the same in every part."""
    with connect() as connection:
        person = open_columns(part, {"person": (column, "person")})(connection)
        return [key for (key,) in person.project("CAST(person AS VARCHAR)").fetchall()]
