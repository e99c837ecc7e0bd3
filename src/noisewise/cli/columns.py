"""Several columns as a person types them: bp:60:220, age:0:100:clamp, sex:f,m."""

from typing import TYPE_CHECKING, Any

import typer

from noisewise.cli.numbers import number

if TYPE_CHECKING:
    from noisewise.model.families import Family
    from noisewise.model.families.moments import Moments
    from noisewise.model.families.table import Table

LISTS = ("--moments", "--table")
"""Options that take a list of columns, up to the next option."""
MOMENTS_EXAMPLE = "--moments bp:60:220 age:0:100:clamp sex:f,m"
"""What to type, in refusals."""
TABLE_EXAMPLE = "--table sex:f,m ward:a,b,c age:0:18:65:100"
"""The same for a table."""
MOMENTS_HELP = (
    "Several columns, for regressions, means and correlations: bp:60:220 (bounds; :clamp after "
    "them where redact is not wanted), sex:f,m (levels)."
)
"""The help of --moments, here and for an audit."""
TABLE_HELP = "Several columns, for a table of counts: sex:f,m (levels), age:0:18:65:100 (edges)."
"""The help of --table, here and for an audit."""


def one_by_one(arguments: list[str]) -> list[str]:
    """The arguments with a list's option before each of its columns, as the parser wants them."""
    rewritten: list[str] = []
    option = ""
    for argument in arguments:
        name, joined, first = argument.partition("=")
        if name in LISTS:
            option = name
            rewritten += [name, first] if joined else []
            continue
        if argument.startswith("-"):
            option = ""
        rewritten += [option, argument] if option else [argument]
    bare = [one for one in LISTS if one in arguments and one not in rewritten]
    if bare:
        raise typer.BadParameter(f"{bare[0]} needs columns, such as {_example(bare[0])}.")
    return rewritten


def asked_family(
    family: str | None, moments: list[str] | None, table: list[str] | None
) -> "Family":
    """What is released: a family by its name, or several columns."""
    if sum(bool(one) for one in (family, moments, table)) != 1:
        raise typer.BadParameter(
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
            raise typer.BadParameter(f"levels take no :{outside}, in {text!r}.")
        if len(parts) != 2:
            raise typer.BadParameter(
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
            raise typer.BadParameter(
                f"{text!r} must have levels, or the edges of bins; write it like {TABLE_EXAMPLE}."
            )
        columns[name] = Bins([number(part, "an edge in --table") for part in parts])
    return Table(_each_once(columns, texts))


def _parts(text: str, option: str) -> tuple[str, list[str]]:
    name, colon, rest = text.partition(":")
    if not (name and colon and rest):
        raise typer.BadParameter(
            f"{text!r} is no column of {option}: it has neither bounds nor levels. Write it like "
            f"{_example(option)}; the file of records comes before."
        )
    return name, rest.split(":")


def _levels(parts: list[str]) -> bool:
    """Whether they are levels: one text, with commas or no number."""
    from noisewise.mechanism.privacy import NUMERAL

    return len(parts) == 1 and NUMERAL.fullmatch(parts[0]) is None


def _split(levels: str, text: str) -> list[str]:
    found = levels.split(",")
    if "" in found:
        raise typer.BadParameter(f"a level is empty in {text!r}; write levels like sex:f,m.")
    return found


def _each_once(columns: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    if len(columns) < len(texts):
        raise typer.BadParameter("a column is named twice; name each once.")
    return columns


def _example(option: str) -> str:
    return MOMENTS_EXAMPLE if option == "--moments" else TABLE_EXAMPLE
