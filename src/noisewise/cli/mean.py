"""`noisewise mean`: the mean of a released column with an interval. No record is read."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli.progress import progress
from noisewise.cli.screen import say
from noisewise.cli.targets import check_targets, csv_text, on_screen, whole, write_table

if TYPE_CHECKING:
    from noisewise.artifact import Release
    from noisewise.inference.mean import Mean

RECORDS = (".csv", ".parquet")
"""What a file of records is called."""


def mean(
    releases: Annotated[
        list[Path],
        typer.Argument(
            help="A release of --moments; several of different records, which are combined; or a "
            ".jsonl file or folder of many groups, each with a mean of its own.",
            show_default=False,
        ),
    ],
    column: Annotated[
        str | None,
        typer.Option(help="The column, where there are several.", show_default=False),
    ] = None,
    level: Annotated[float, typer.Option(help="The interval's probability.")] = 0.9,
    draws: Annotated[int, typer.Option(help="How many draws --out holds.")] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Makes the draws repeatable.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the draws (.nc, ArviZ), or of many groups the table (.csv, "
            ".parquet).",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to draw the posterior (.svg, .png or .pdf).", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a line.")] = False,
) -> None:
    """The mean of a released column with an interval, whatever the column's shape.

    The curator releases it with: noisewise release records.csv --moments visits:0:60:clamp ...
    """
    many = any(one.is_dir() or one.suffix == ".jsonl" for one in releases)
    _refuse_records(releases, column)
    check_targets(out, plot, many)
    if many and len(releases) > 1:
        raise typer.BadParameter("give one .jsonl file or folder, or release files, not both.")

    from noisewise.artifact import load, load_many
    from noisewise.inference import mean as model

    with progress("mean") as report:
        if many:
            groups = load_many(releases[0])
            means = model.mean_many(
                groups, column, level=level, draws=draws, seed=seed, progress=report
            )
        else:
            found = model.mean(
                [load(one) for one in releases],
                column,
                level=level,
                draws=draws,
                seed=seed,
                progress=report,
            )
    if many:
        _many(groups, means, out, as_json)
        return
    _one(found, len(releases), as_json)
    if out is not None:
        with whole(out) as partial:
            found.posterior.to_arviz().to_netcdf(str(partial))
        say(f"wrote {out}: {draws} draws, ArviZ netCDF", aside=as_json)
    if plot is not None:
        with whole(plot) as partial:
            found.plot().savefig(partial)
        say(f"wrote {plot}", aside=as_json)


def _refuse_records(paths: list[Path], column: str | None) -> None:
    """By their names: what may be records is not opened here."""
    for path in paths:
        if path.suffix.lower() in RECORDS:
            name = column or "COLUMN"
            raise typer.BadParameter(
                f"{path} is a file of records, and `noisewise mean` reads releases. Who holds the "
                f"records makes one: noisewise release {path} --moments {name}:LOWER:UPPER:clamp "
                "--epsilon EPSILON --ledger FILE --dataset NAME --out release.json."
            )


def _one(found: "Mean", releases: int, as_json: bool) -> None:
    certificate = found.posterior.certificate
    if as_json:
        content: dict[str, Any] = found.row() | {
            "bounds": found.column.describe(),
            "meaning": found.meaning,
            "warnings": list(found.warnings),
            "certificate": certificate.sentence,
        }
        print(json.dumps(content, indent=2, allow_nan=False))
        return
    if releases > 1:
        say(f"{releases} releases of different records, combined.")
    say(found.sentence)
    say(found.meaning)
    for warning in found.warnings:
        say(f"WARNING: {warning}")


def _many(groups: "list[Release]", means: "list[Mean]", out: Path | None, as_json: bool) -> None:
    table = [
        {
            "dataset": release.dataset,
            "group": None if release.group is None else release.group[1],
            "n": release.n,
        }
        | one.row()
        | {"warnings": " ".join(one.warnings)}
        for release, one in zip(groups, means, strict=True)
    ]
    if out is not None:
        with whole(out) as partial:
            write_table(table, partial)
        say(f"wrote {out}: {len(table)} rows", aside=as_json)
    elif as_json:
        print(json.dumps(table, allow_nan=False))
    else:
        say(csv_text(on_screen(table)).removesuffix("\n"))
