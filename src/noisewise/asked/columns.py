"""Several columns as a person types them: bp:60:220, age:0:100:clamp, sex:f,m."""

from typing import TYPE_CHECKING, Any

from noisewise.asked.numbers import number
from noisewise.errors import NoisewiseError

if TYPE_CHECKING:
    from noisewise.model.families import Family
    from noisewise.model.families.moments import Moments
    from noisewise.model.families.table import Table

MOMENTS_EXAMPLE = "--moments bp:60:220 age:0:100:clamp sex:f,m"
"""What to type, in refusals."""
TABLE_EXAMPLE = "--table sex:f,m ward:a,b,c age:0:18:65:100"
"""The same for a table."""


def asked_family(
    family: str | None, moments: list[str] | None, table: list[str] | None
) -> "Family":
    """What is released: a family by its name, or several columns."""
    if sum(bool(one) for one in (family, moments, table)) != 1:
        raise NoisewiseError(
            "say what to release: --column NAME --family FAMILY, or several columns with --moments "
            "or --table."
        )
    if moments:
        return _moments(moments)
    if table:
        return _table(table)

    from noisewise.model import notation

    assert family is not None
    return notation.family(family)


def _moments(texts: list[str]) -> "Moments":
    from noisewise.model.bounds import Bounds
    from noisewise.model.families.moments import Moments

    columns: dict[str, Any] = {}
    for text in texts:
        name, parts = _parts(text, "--moments")
        outside = parts.pop() if parts[-1] in ("redact", "clamp") else "redact"
        if _levels(parts):
            if parts[0] == text.rpartition(":")[2]:
                columns[name] = _split(parts[0], text)
                continue
            raise NoisewiseError(f"levels take no :{outside}, in {text!r}.")
        if len(parts) != 2:
            raise NoisewiseError(
                f"{text!r} must have two numbers, its bounds, or levels; write it like "
                f"{MOMENTS_EXAMPLE}."
            )
        low, high = (number(part, "a bound in --moments") for part in parts)
        columns[name] = Bounds(low, high, outside=outside)  # type: ignore[arg-type]
    return Moments(_each_once(columns, texts))


def _table(texts: list[str]) -> "Table":
    from noisewise.model.columns import Bins
    from noisewise.model.families.table import Table

    columns: dict[str, Any] = {}
    for text in texts:
        name, parts = _parts(text, "--table")
        if _levels(parts):
            columns[name] = _split(parts[0], text)
            continue
        if len(parts) < 2:
            raise NoisewiseError(
                f"{text!r} must have levels, or the edges of bins; write it like {TABLE_EXAMPLE}."
            )
        columns[name] = Bins([number(part, "an edge in --table") for part in parts])
    return Table(_each_once(columns, texts))


def _parts(text: str, option: str) -> tuple[str, list[str]]:
    name, colon, rest = text.partition(":")
    if not (name and colon and rest):
        raise NoisewiseError(
            f"{text!r} is no column of {option}: it has neither bounds nor levels. Write it like "
            f"{example_of(option)}; the file of records comes before."
        )
    return name, rest.split(":")


def _levels(parts: list[str]) -> bool:
    """Whether they are levels: one text, with commas or no number."""
    from noisewise.mechanism.privacy import NUMERAL

    return len(parts) == 1 and NUMERAL.fullmatch(parts[0]) is None


def _split(levels: str, text: str) -> list[str]:
    found = levels.split(",")
    if "" in found:
        raise NoisewiseError(f"a level is empty in {text!r}; write levels like sex:f,m.")
    return found


def _each_once(columns: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    if len(columns) < len(texts):
        raise NoisewiseError("a column is named twice; name each once.")
    return columns


def example_of(option: str) -> str:
    return MOMENTS_EXAMPLE if option == "--moments" else TABLE_EXAMPLE
