"""`noisewise pool`: many groups in the light of the population that they come from."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli.progress import progress
from noisewise.cli.screen import say
from noisewise.cli.targets import check_targets, on_screen, whole, write_table

if TYPE_CHECKING:
    from noisewise.inference.certificate import Certificate

SHOWN = 40
"""Groups on the screen; a table or --json holds all."""


def pool(
    releases: Annotated[
        list[Path],
        typer.Argument(
            help="Release files, one for each group; or one .jsonl file or folder of them.",
            show_default=False,
        ),
    ],
    prior: Annotated[
        str | None,
        typer.Option(
            help="Of a second parameter, such as 'inverse_gamma(shape=1, scale=2)'; weak by "
            "default.",
            show_default=False,
        ),
    ] = None,
    n_prior: Annotated[
        str | None,
        typer.Option(
            "--n-prior",
            help="Of a group's number of records where it is not public, such as "
            "'gamma(shape=4, rate=0.01)'; one population for all by default.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws for ranks and probabilities.")] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Makes the draws repeatable.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the table (.csv, .parquet).", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to draw the forest (.svg, .png or .pdf).", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The population that groups come from, and every group's posterior in its light: ranks, and
    which groups differ from the average.
    """
    check_targets(out, None, True)
    check_targets(None, plot, False)

    from noisewise.artifact import load, load_many
    from noisewise.inference.pooling.pool import pool as run

    folder = len(releases) == 1 and (releases[0].is_dir() or releases[0].suffix == ".jsonl")
    found = load_many(releases[0]) if folder else [load(path) for path in releases]
    with progress(f"{len(found)} groups") as report:
        pooled = run(found, draws=draws, seed=seed, prior=prior, n_prior=n_prior, progress=report)
        table, certificate = pooled.table(), pooled.certificate
    if as_json:
        print(json.dumps(_content(pooled, table, certificate), indent=2, allow_nan=False))
    else:
        _print(pooled, table, certificate)
    if out is not None:
        with whole(out) as partial:
            write_table(table, partial)
        say(f"wrote {out}: {len(table)} rows", aside=as_json)
    if plot is not None:
        with whole(plot) as partial:
            pooled.plot().savefig(partial)
        say(f"wrote {plot}", aside=as_json)


def _content(
    pooled: Any, table: list[dict[str, Any]], certificate: "Certificate"
) -> dict[str, Any]:
    return {
        "family": pooled.releases[0].family.describe(),
        "parameter": pooled.name,
        "population": list(pooled.population.summary()),
        "groups": table,
        "differ": pooled.differ(),
        "certificate": certificate.content,
    }


def _print(pooled: Any, table: list[dict[str, Any]], certificate: "Certificate") -> None:
    say(f"population of {pooled.name}, from {len(pooled)} groups:\n{pooled.population.summary()}")
    rows = [["", "mean", "5%", "95%", "rank", "above average"]]
    order = sorted(range(len(table)), key=lambda g: -table[g]["mean"])
    for g in order[:SHOWN]:
        row = table[g]
        rank = f"{row['rank']:.1f} ({row['rank_5%']} to {row['rank_95%']})"
        figures = [f"{row[column]:.4g}" for column in ("mean", "5%", "95%")]
        (name,) = on_screen([{"name": pooled.labels[g]}])
        rows.append([name["name"][:SHOWN], *figures, rank, f"{row['above_average']:.3f}"])
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    say("")
    for line in rows:
        cells = zip(line, widths, strict=True)
        said = "  ".join(c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in enumerate(cells))
        say(said.rstrip())
    if len(order) > SHOWN:
        say(f"... and {len(order) - SHOWN} more; --out writes all")
    count = len(pooled.differ())
    say(f"\n{count} of {len(pooled)} groups differ from the average with probability 0.95 or more.")
    say(certificate.sentence)
    for assumption in certificate.assumptions:
        say(f"assumed: {assumption}.")
