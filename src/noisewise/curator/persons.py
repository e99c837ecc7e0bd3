"""So many records of each person at most, chosen by what that person's own records say.

The records of a person with too many are put in order by all that is read of them, and every m/k-th
is kept, from a start that the person's name decides: each with the same chance, the same wherever
the records lie, and no other person's records have a say. Records that are alike in all that is
read are alike in what they contribute, so it does not matter which of them comes first.
"""

from typing import Any

import duckdb

from noisewise.curator.database import connect
from noisewise.curator.reading import Persons
from noisewise.curator.records import open_columns
from noisewise.curator.schema import kind_of, quoted

FAILED = "failed"
"""In place of a key, where a part of a cluster's records could not be read: no key is spelt so."""


def bounded(records: duckdb.DuckDBPyRelation, persons: Persons) -> duckdb.DuckDBPyRelation:
    """The records that are kept, without their person. Those of nobody are not.

    They are held once, because a table that is read twice need not be the same; and only the
    records of those who have too many are put in order.
    """
    names = [quoted(name) for name in records.columns if name != "person"]
    kept, most = ", ".join(names), persons.most
    if kind_of(records, "person") == "DOUBLE":
        salt = "hash(person, NULL::VARCHAR)"
    else:
        number = "CASE WHEN starts_with(person, 'number ') THEN CAST(person[8:] AS DOUBLE) END"
        salt = f"hash({number}, CASE WHEN NOT starts_with(person, 'number ') THEN person END)"
    part = f"OVER (PARTITION BY person ORDER BY {kept})"
    sql = f"""
        WITH held AS MATERIALIZED (SELECT * FROM records WHERE person IS NOT NULL),
        owners AS MATERIALIZED (
            SELECT person FROM held GROUP BY person HAVING count(*) > {most}
        ),
        marked AS (
            SELECT held.*, owners.person IS NOT NULL AS many
            FROM held LEFT JOIN owners USING (person)
        ),
        placed AS (
            SELECT {kept}, row_number() {part} AS place, count(*) OVER (PARTITION BY person) AS m,
                ({salt} % m)::BIGINT AS start
            FROM marked WHERE many
        )
        SELECT {kept} FROM marked WHERE NOT many
        UNION ALL
        SELECT {kept} FROM placed
        WHERE (place + start) * {most} // m > (place - 1 + start) * {most} // m
    """
    return records.query("records", sql)


def keys_of(part: Any, column: str) -> list[str | None]:
    """Whose each record of a part is, in its order: keys that are the same in every part."""
    with connect() as connection:
        source = open_columns(part, {"person": (column, "text")})
        return [key for (key,) in source(connection).fetchall()]
