"""What a value means, as SQL: a number, or the key of a label.

It does not depend on the column's type, because one changed record can change that type (a null
turns pandas integers into floats, a word turns them into objects). As a number: true is 1, false is
0, text is parsed by DuckDB, anything else is missing. As a label: see `key_of_text`.
"""

NUMBERS = (
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
)
"""DuckDB's types that hold numbers."""
TEXT = ("VARCHAR", "ENUM", "NULL", '"NULL"')
"""DuckDB's types that hold text, or nothing: a column of nulls is read as text."""


def number_of_text(text: str) -> str:
    """The number that a text says; NULL where it says none."""
    boolean = f"CASE lower(trim({text})) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
    return f"coalesce(TRY_CAST({text} AS DOUBLE), {boolean})"


def key_of_text(text: str) -> str:
    """What a label is matched by: true and false in any case, a number by its value, other text by
    itself; NULL is missing.

    So it does not matter whether a table holds 1.5, '1.5' or '1.50': one odd record could change
    which.
    """
    word, number = f"lower(trim({text}))", f"TRY_CAST({text} AS DOUBLE)"
    other = f"WHEN {number} IS NOT NULL THEN {key_of_number(number)} ELSE 'text ' || {text}"
    return f"CASE WHEN {word} IN ('true', 'false') THEN {word} {other} END"


def key_of_number(number: str) -> str:
    """What a number is matched by as a label; NULL for NaN."""
    # + 0: no negative zero
    return f"CASE WHEN NOT isnan({number}) THEN 'number ' || CAST({number} + 0 AS VARCHAR) END"
