"""`noisewise regress`: a linear regression from a release of several columns."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from noisewise.asked.numbers import number
from noisewise.cli.progress import progress
from noisewise.cli.screen import say
from noisewise.cli.several import SeveralCommand
from noisewise.cli.targets import (
    OUT_HELP,
    check_targets,
    on_screen,
    show_many,
    whole,
    write_one,
)

if TYPE_CHECKING:
    from noisewise.inference.regress import RegressionPosterior

PRIOR_HELP = "The prior, such as 'linear(sd=1, shape=1, scale=0.25)', in standardised coordinates."


class RegressCommand(SeveralCommand):
    """`--on age sex`, `--at age=50 sex=m`."""

    several: ClassVar[tuple[str, ...]] = ("--on", "--at")


def regress(
    releases: Annotated[
        list[Path],
        typer.Argument(
            help="A release of --moments; several of different records, which are combined; or a "
            ".jsonl file or folder of many groups, each with coefficients of its own.",
            show_default=False,
        ),
    ],
    outcome: Annotated[str, typer.Option(help="The numeric column.", show_default=False)],
    on: Annotated[
        list[str] | None, typer.Option(help="The covariates, one or more.", show_default=False)
    ] = None,
    prior: Annotated[str, typer.Option(help=PRIOR_HELP)] = "weak",
    draws: Annotated[int, typer.Option(help="How many draws --out holds.")] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Makes the draws repeatable.", show_default=False)
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="Predict the outcome there, such as age=50 sex=m: a value of every covariate.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=OUT_HELP, show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Where to draw the coefficients (.svg, .png or .pdf).", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The linear regression of one released column on others, in the columns' own units."""
    many = any(one.is_dir() or one.suffix == ".jsonl" for one in releases)
    check_targets(out, plot, many)

    from noisewise.artifact import load, load_many
    from noisewise.inference import regress as model

    if many and len(releases) > 1:
        raise typer.BadParameter("give one .jsonl file or folder, or release files, not both.")
    if many and at:
        raise typer.BadParameter("--at predicts from one regression; give release files.")
    with progress("regressing") as report:
        if many:
            groups = model.regress_many(
                load_many(releases[0]),
                outcome,
                on or [],
                prior=prior,
                draws=draws,
                seed=seed,
                progress=report,
            )
        else:
            found = model.regress(
                [load(one) for one in releases],
                outcome,
                on or [],
                prior=prior,
                draws=draws,
                seed=seed,
                progress=report,
            )
    if many:
        show_many(groups.table(), out, as_json)
        return
    if len(releases) > 1:
        say(f"{len(releases)} releases of different records, combined.", aside=as_json)
    _one(found, at or [], out, plot, as_json)


def _one(
    posterior: "RegressionPosterior",
    at: list[str],
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    where = asked_values(posterior, at)
    prediction = None if where is None else posterior.predict(where)
    if as_json:
        certificate = posterior.certificate
        content = {
            "model": posterior.family.describe(),
            "method": posterior.method,
            "table": list(posterior.table()),
            "certificate": certificate.content,
        }
        if prediction is not None:
            content["prediction"] = {"at": where} | asdict(prediction)
        print(json.dumps(content, indent=2, allow_nan=False))
    else:
        table = posterior.table()
        say(str(type(table)(on_screen(table))))
        for column in posterior.family.on:
            levels = getattr(column, "levels", None)
            if levels:
                say(f"{column.name}: compared with {levels[0]}")
        if prediction is not None:
            low, high = prediction.interval
            say(
                f"\nat {' '.join(at)} the mean {posterior.family.outcome.name} is "
                f"{prediction.mean:.4g}, {prediction.level:.0%} in {low:.4g} to {high:.4g}; one "
                f"person's is in {prediction.person[0]:.4g} to {prediction.person[1]:.4g}."
            )
        say(f"\n{posterior.certificate.sentence}")
        for assumption in posterior.certificate.assumptions:
            say(f"assumed: {assumption}.")
    if out is not None:
        write_one(posterior, out, as_json)
    if plot is not None:
        with whole(plot) as partial:
            posterior.plot().savefig(partial)
        say(f"wrote {plot}", aside=as_json)


def asked_values(posterior: "RegressionPosterior", at: list[str]) -> dict[str, Any] | None:
    """`age=50 sex=m` as a value of each covariate."""
    if not at:
        return None
    found: dict[str, Any] = {}
    columns = {column.name: column for column in posterior.family.on}
    for word in at:
        name, equals, text = word.rpartition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--at takes NAME=VALUE, such as age=50; got {word!r}.")
        levels = getattr(columns.get(name), "levels", None)
        if levels is None:
            found[name] = number(text, f"--at {name}")
        else:
            found[name] = next((one for one in levels if str(one) == text), text)
    return found
