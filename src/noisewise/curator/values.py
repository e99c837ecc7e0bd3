"""What a value means, as SQL: a number, or the key of a label.

It does not depend on the column's type, because one changed record can change that type (a null
turns pandas integers into floats, a word turns them into objects). As a number: true is 1, false is
0, text is parsed by DuckDB, anything else is missing. As a label: see `key_of_text`.
"""

from typing import Literal

Form = Literal["number", "text", "person", "key"]
"""A value is read as a number, as the key of a label, as whose a record is (see `person_of_text`),
or as the text of the latter.
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


def person_of_text(text: str) -> str:
    """Whose a record is, as `person_of_number`: two texts are one person if they are one label."""
    word, number = f"lower(trim({text}))", f"TRY_CAST({text} AS DOUBLE)"
    return f"""CASE
        WHEN {_neither_word_nor_number(text)} THEN {_digest(text)}
        WHEN {word} IN ('true', 'false') THEN {_digest(word)}
        WHEN {number} IS NOT NULL THEN {person_of_number(number)}
        WHEN {text} IS NOT NULL THEN {_digest(text)} END"""


def person_of_number(number: str) -> str:
    """Whose a record is: a whole number from 0 to 2^63 that is the same wherever the records lie;
    NULL for nobody.
    """
    return f"CASE WHEN NOT isnan({number}) THEN {_digest(number)} END"


def _digest(value: str) -> str:
    return f"(hash({value}) >> 1)::BIGINT"


def _neither_word_nor_number(text: str) -> str:
    """True of most names, by their first letter, which is seen much faster than that a number does
    not parse: true, false, inf and nan start otherwise, and so do digits, signs and spaces.
    """
    first = f"unicode({text})"
    others = ", ".join(str(ord(letter)) for letter in "FfIiNnTt")
    return f"{first} BETWEEN {ord('A')} AND {ord('z')} AND {first} NOT IN ({others})"


def of_text(text: str, wanted: Form) -> str:
    """What a text means in a form."""
    if wanted == "key":
        return f"CAST({text} AS BIGINT)"
    return {"number": number_of_text, "text": key_of_text, "person": person_of_text}[wanted](text)


def of_number(number: str, wanted: Form) -> str:
    """What a number means in a form; none is a key."""
    if wanted == "number":
        return number
    return person_of_number(number) if wanted == "person" else key_of_number(number)
