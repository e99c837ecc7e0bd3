"""What a value means, as SQL: a number, or the key of a label.

It does not depend on the column's type, because one changed record can change that type (a null
turns pandas integers into floats, a word turns them into objects). As a number: true is 1, false is
0, text is parsed by DuckDB, anything else is missing. As a label: see `key_of_text`.
"""

from typing import Literal

Form = Literal["number", "text", "person", "key"]
"""A value is read as a number, as the key of a label, as whose a record is (see `person_of_text`),
or as the latter's text, which is taken as it is.
"""
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
"""DuckDB's types that hold nothing but what a BIGINT holds."""
FLOATS = ("FLOAT", "DOUBLE")
"""Its floats."""
NUMERAL = r"^\s*(?:\+|(-))?0*([0-9]*)(?:\.0*|(\.[0-9]*[1-9])0*)?\s*$"
"""A number without an exponent: its sign, its digits before the point but for leading zeros, and
the point with those after it but for trailing ones.
"""
NUMBERS = (
    *INTEGERS,
    "HUGEINT",
    "UBIGINT",
    "UHUGEINT",
    "BIGNUM",
    *FLOATS,
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
    """Whose a record is, as text: a number by its value, to the last digit (007, 7.0 and +7 are 7;
    true is 1), other text by itself, and so one with an exponent, which may be no number (10e4 of a
    digest); NULL for nobody. What this gives, it gives again.
    """
    word, digits = f"lower(trim({text}))", f"regexp_replace({text}, '{NUMERAL}', '\\1\\2\\3')"
    return f"""CASE
        WHEN {_neither_word_nor_number(text)} THEN {text}
        WHEN CAST(TRY_CAST({text} AS BIGINT) AS VARCHAR) = {text} THEN {text}
        WHEN {word} = 'true' THEN '1'
        WHEN {word} = 'false' THEN '0'
        WHEN isnan(TRY_CAST({text} AS DOUBLE)) THEN NULL
        WHEN NOT regexp_matches({text}, '[0-9]') THEN {text}
        ELSE CASE {digits} WHEN '' THEN '0' WHEN '-' THEN '0' ELSE {digits} END END"""


def person_of(name: str, kind: str) -> str:
    """Whose a record is, from a column of one of DuckDB's types: a BIGINT, or the text that says
    the same.
    """
    if kind in ("BOOLEAN", *INTEGERS):
        return f"CAST({name} AS BIGINT)"
    if kind in FLOATS:
        number = f"TRY_CAST({name} AS DOUBLE)"
        whole = f"{number} = floor({number}) AND abs({number}) < 1e37"
        text = f"CAST({number} AS VARCHAR)"
        return (
            f"CASE WHEN {whole} THEN CAST(CAST({number} AS HUGEINT) AS VARCHAR) "
            f"ELSE {person_of_text(text)} END"
        )
    return person_of_text(f"CAST({name} AS VARCHAR)")


def number_of_person(person: str, kind: str) -> str:
    """A BIGINT for a person as above: for a BIGINT and for its text itself, for other text 63 bits
    of a digest, which may be those of another person.
    """
    if kind == "BIGINT":
        return person
    digest, number = f"(hash({person}) >> 1)::BIGINT", f"TRY_CAST({person} AS BIGINT)"
    return f"""CASE WHEN {_neither_word_nor_number(person)} THEN {digest}
        WHEN CAST({number} AS VARCHAR) = {person} THEN {number} ELSE {digest} END"""


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
        return text
    return {"number": number_of_text, "text": key_of_text, "person": person_of_text}[wanted](text)


def of_number(number: str, wanted: Form) -> str:
    """What a DOUBLE means in a form; none is a key."""
    if wanted == "number":
        return number
    return person_of(number, "DOUBLE") if wanted == "person" else key_of_number(number)
