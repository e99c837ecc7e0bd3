"""So many records of each person at most; `choice` says which.

A person is a number. Of persons with names two may have the same one: those are told apart by their
names, so nobody can choose a name that makes another's records be kept or not.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from noisewise.curator.choice import Crowds, choose, crowds_of
from noisewise.curator.database import connect
from noisewise.curator.reading import Key, Persons
from noisewise.curator.records import open_columns
from noisewise.curator.schema import kind_of
from noisewise.curator.values import number_of_person
from noisewise.model.arrays import BoolArray

FAILED = "+0"
"""In place of a person, where a part of a cluster's records could not be read: whoever is zero is
"0".
"""
Labels: TypeAlias = Mapping[str, tuple[Key, ...]]
"""The public labels of each column that is text, by its name of ours."""
Arrays: TypeAlias = dict[str, NDArray[Any]]
"""Columns by their names."""


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
    kind = kind_of(records, "person")
    read = [f"{_as_number(name, lists.get(name))} AS {name}" for name in names]
    read.append(f"{number_of_person('person', kind)} AS number")
    known = "FROM records WHERE person IS NOT NULL"
    if kind == "BIGINT":
        held = records.query("records", f"SELECT {', '.join(read)} {known}").fetchnumpy()
        kept = _kept(held, crowds_of(held["number"], persons.most), persons.most)
    else:
        read.append("person")
        records.query("records", f"CREATE TEMP TABLE named AS SELECT {', '.join(read)} {known}")
        held, kept = _kept_by_name(connection, persons.most)
    del held["number"]
    connection.register("held", held | {"kept": kept})
    said = ", ".join(_as_said(name, lists.get(name)) for name in names)
    return connection.sql(f"SELECT {said} FROM held WHERE kept")


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


def _kept(held: Arrays, crowds: Crowds, most: int) -> BoolArray:
    """Which records are kept."""
    columns = [column for name, column in held.items() if name not in ("number", "person")]
    kept = np.ones(len(columns[0]), dtype=bool)
    choose(kept, crowds, columns, most)
    return kept


def _kept_by_name(connection: duckdb.DuckDBPyConnection, most: int) -> tuple[Arrays, BoolArray]:
    """The records of persons with names, and which are kept."""
    held = connection.sql("SELECT * EXCLUDE person FROM named").fetchnumpy()
    crowds = crowds_of(held["number"], most)
    connection.register("crowd", {"number": crowds.number})
    shared = connection.sql(
        """SELECT number FROM named SEMI JOIN crowd USING (number)
        GROUP BY number HAVING min(person) <> max(person)"""
    ).fetchnumpy()
    if not len(shared["number"]):
        return held, _kept(held, crowds, most)
    connection.register("shared", shared)
    alone = "SELECT * EXCLUDE person FROM named ANTI JOIN shared USING (number)"
    by_name = "SELECT * FROM named SEMI JOIN shared USING (number) ORDER BY person"
    held, theirs = (connection.sql(query).fetchnumpy() for query in (alone, by_name))
    another = theirs["person"][1:] != theirs["person"][:-1]
    first = np.flatnonzero(np.concatenate([[True], another]))
    rows = np.arange(len(theirs["person"]))
    named = Crowds(theirs["number"][first], rows, first, np.diff(first, append=len(rows)))
    kept = _kept(held, crowds_of(held["number"], most), most)
    kept_of_theirs = _kept(theirs, named.of(named.size > most), most)
    together = {name: np.concatenate([own, theirs[name]]) for name, own in held.items()}
    return together, np.concatenate([kept, kept_of_theirs])


def keys_of(part: Any, column: str) -> list[str | None]:
    """Whose each record of a part is, in its order: keys that are the same in every part."""
    with connect() as connection:
        person = open_columns(part, {"person": (column, "person")})(connection)
        return [key for (key,) in person.project("CAST(person AS VARCHAR)").fetchall()]
