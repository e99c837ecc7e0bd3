"""`noisewise check`: does a histogram of the same records contradict a release's family?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli.infer import PRIOR_HELP
from noisewise.cli.progress import progress
from noisewise.cli.screen import say
from noisewise.cli.targets import check_targets, whole

if TYPE_CHECKING:
    from noisewise.inference.check import Check


def check(
    release: Annotated[
        Path, typer.Argument(help="A release of one column and a family.", show_default=False)
    ],
    histogram: Annotated[
        Path,
        typer.Argument(
            help="A release of the same records with --table COLUMN:EDGE:EDGE:...",
            show_default=False,
        ),
    ],
    prior: Annotated[str | None, typer.Option(help=PRIOR_HELP, show_default=False)] = None,
    n_prior: Annotated[
        str | None,
        typer.Option(
            help="A prior of n where it is not public, such as 'gamma(shape=4, rate=0.01)'.",
            show_default=False,
        ),
    ] = None,
    replicates: Annotated[
        int, typer.Option(help="Releases that are drawn anew; p is never below one of so many.")
    ] = 499,
    seed: Annotated[
        int | None, typer.Option(help="Makes the p-value repeatable.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Where to draw the bins and what is predicted (.svg, .png or .pdf).",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Whether a histogram of the same records contradicts the family of a release. A right family
    gets a p-value of 0.05 or less in about 5 % of checks.
    """
    check_targets(None, plot, False)

    from noisewise.artifact import load
    from noisewise.inference.check import check as run

    pair = load(release), load(histogram)
    if prior is None:
        raise typer.BadParameter(
            "a check needs the prior that the posterior has; say it as for `noisewise infer`, or "
            "--prior weak."
        )
    with progress("checking") as report:
        found = run(
            *pair, prior, replicates=replicates, n_prior=n_prior, seed=seed, progress=report
        )
    if as_json:
        print(json.dumps(_content(found), indent=2, allow_nan=False))
    else:
        _print(found)
    if plot is not None:
        with whole(plot) as partial:
            found.plot().savefig(partial)
        say(f"wrote {plot}", aside=as_json)


def _content(found: "Check") -> dict[str, Any]:
    return {
        "family": found.posterior.family.describe(),
        "column": found.column,
        "p_value": found.p_value,
        "replicates": found.replicates,
        "bins": found.table(),
        "sentence": found.sentence,
        "warnings": list(found.posterior.certificate.warnings),
    }


def _print(found: "Check") -> None:
    rows = [["", "released", "expected", "5%", "95%", ""]]
    for row in found.table():
        figures = [f"{row[key]:.0f}" for key in ("noisy", "expected", "5%", "95%")]
        rows.append([row["bin"], *figures, "" if row["inside"] else "outside"])
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    for line in rows:
        cells = zip(line, widths, strict=True)
        said = "  ".join(c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in enumerate(cells))
        say(said.rstrip())
    say(f"\n{found.sentence}")
    for warning in found.posterior.certificate.warnings:
        say(f"WARNING, of the posterior: {warning}")
