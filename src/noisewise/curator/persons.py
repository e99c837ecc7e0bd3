"""So many records of each person at most; `choice` says which.

A person is a number. Of persons with names two may have the same one: those are told apart by their
names, so nobody can choose a name that makes another's records be kept or not.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from noisewise.curator.choice import chosen_of, crowded_heads, kept_rows
from noisewise.curator.database import connect
from noisewise.curator.reading import Columns, Persons
from noisewise.curator.records import open_columns
from noisewise.curator.schema import kind_of
from noisewise.curator.values import number_of_person
from noisewise.model.arrays import BoolArray

FAILED = "+0"
"""In place of a person, where a part of a cluster's records could not be read: whoever is zero is
"0".
"""
HEAD = "(hash(number) >> 32)::UINTEGER"
"""The first bits of a digest of a person: those of two may be the same."""
Labels: TypeAlias = Mapping[str, tuple[str, ...]]
"""The public labels of each column that is text, by its name of ours."""
Arrays: TypeAlias = dict[str, NDArray[Any]]
"""Columns by their names."""


def bounded(
    connection: duckdb.DuckDBPyConnection,
    records: duckdb.DuckDBPyRelation,
    persons: Persons,
    labels: Labels,
) -> duckdb.DuckDBPyRelation:
    """The records that are kept, without their person, chosen by what the other columns say. Those
    of nobody are not.

    All are held while they are chosen from, because a table that is read twice need not be the
    same.
    """
    names = [name for name in records.columns if name != "person"]
    lists = {name: ", ".join(map(literal, labels[name])) for name in names if name in labels}
    kind = kind_of(records, "person")
    number = f"{number_of_person('person', kind)} AS number"
    read = ", ".join(
        [number, *(f"{_as_number(name, lists.get(name))} AS {name}" for name in names)]
    )
    if kind == "BIGINT":
        known = f"SELECT {read} FROM records WHERE person IS NOT NULL"
        held = records.query("records", known).fetchnumpy()
        kept = kept_rows(held.pop("number"), list(held.values()), persons.most)
        connection.register("held", {**held, "kept": kept})
        chosen = "SELECT * FROM held WHERE kept"
    else:
        known = f"SELECT {read}, person FROM records WHERE person IS NOT NULL"
        records.query("records", f"CREATE TEMP TABLE held AS {known}")
        chosen = _chosen_by_name(connection, names, persons.most)
    said = ", ".join(_as_said(name, lists.get(name)) for name in names)
    return connection.sql(f"SELECT {said} FROM ({chosen})")


def literal(label: str) -> str:
    """A label as SQL."""
    return "'" + label.replace("'", "''") + "'"


def _as_number(name: str, labels: str | None) -> str:
    """A number, or the place of a label, from 0 on; NaN where it is missing."""
    number = f"{name} + 0" if labels is None else f"enum_code({name}::ENUM({labels}))"
    return f"coalesce({number}, 'nan'::DOUBLE)"  # + 0: no negative zero


def _as_said(name: str, labels: str | None) -> str:
    """What was made a number above."""
    if labels is None:
        return name
    return f"([{labels}])[TRY_CAST({name} AS INTEGER) + 1] AS {name}"  # NaN is no integer


def _chosen_by_name(connection: duckdb.DuckDBPyConnection, names: list[str], most: int) -> str:
    """The records that are kept, as a query, where persons have names. Those stay in the database,
    and only the records of persons who may have too many leave it.
    """
    columns = ", ".join(names)
    heads = connection.sql(f"SELECT {HEAD} AS head FROM held").fetchnumpy()["head"]
    crowded = crowded_heads(heads, most)
    if not len(crowded):
        return "SELECT * FROM held"
    connection.register("crowded", {"head": crowded})
    candidates = f"held SEMI JOIN crowded ON {HEAD} = head"
    several = "GROUP BY number HAVING min(person) <> max(person)"
    shared = connection.sql(f"SELECT number FROM {candidates} {several}").fetchnumpy()
    connection.register("shared", shared)
    alone = connection.sql(
        f"SELECT number, {columns} FROM {candidates} ANTI JOIN shared USING (number)"
    ).fetchnumpy()
    by_name = connection.sql(
        f"SELECT number, person, {columns} FROM held SEMI JOIN shared USING (number)"
    ).fetchnumpy()
    kept = [_kept(alone, kept_rows(alone["number"], [alone[name] for name in names], most))]
    own = [by_name[name] for name in names]
    kept.append(_kept(by_name, chosen_of(by_name["person"], by_name["number"], own, most)))
    together = {name: np.concatenate([part[name] for part in kept]) for name in names}
    connection.register("kept", together)
    others = f"SELECT {columns} FROM held ANTI JOIN crowded ON {HEAD} = head"
    return f"{others} UNION ALL SELECT {columns} FROM kept"


def _kept(columns: Arrays, kept: BoolArray) -> Arrays:
    """The records that are kept."""
    return {name: column[kept] for name, column in columns.items()}


def keys_of(part: Any, column: str) -> list[str | None]:
    """Whose each record of a part is, in its order: keys that are the same in every part.

    Each record is read with its place, since DuckDB need not give rows back in the order in which
    it got them: joined by their order, records would be given to other persons.
    """
    place = "place" + column  # two names, whatever the column's is
    columns: Columns = {"person": (column, "person"), "place": (place, "number")}
    with connect() as connection:
        read = open_columns(_numbered(part, column, place), columns)(connection)
        found = dict(read.project("place::BIGINT, CAST(person AS VARCHAR)").fetchall())
    return [found[at] for at in range(len(part))]


def _numbered(part: Any, column: str, place: str) -> Any:
    """A column of a pandas frame or of a pyarrow table, and the place of each record."""
    if hasattr(part, "assign"):
        return part[[column]].assign(**{place: range(len(part))})
    return part.select([column]).append_column(place, [range(len(part))])
