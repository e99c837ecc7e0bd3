"""Several columns on the command line."""

import typer

from noisewise.asked.columns import example_of

LISTS = ("--moments", "--table")
"""Options that take a list of columns, up to the next option."""
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
        raise typer.BadParameter(f"{bare[0]} needs columns, such as {example_of(bare[0])}.")
    return rewritten
