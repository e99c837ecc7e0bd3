"""`noisewise report`: a release as one self-contained page for people."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from noisewise.cli.infer import PRIOR_HELP
from noisewise.cli.progress import progress
from noisewise.cli.regress import asked_values
from noisewise.cli.screen import say
from noisewise.cli.several import SeveralCommand
from noisewise.cli.targets import whole

if TYPE_CHECKING:
    from noisewise.artifact import Release
    from noisewise.report.context import Context


class ReportCommand(SeveralCommand):
    """`--on age sex`, `--unit bp=mmHg age=years`."""

    several: ClassVar[tuple[str, ...]] = ("--on", "--at", "--unit")


def report(
    releases: Annotated[
        list[Path],
        typer.Argument(
            help="A release; several of different records, which are combined; or one .jsonl file "
            "or folder of many groups.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write the page (.html).", show_default=False)],
    prior: Annotated[str, typer.Option(help=PRIOR_HELP)] = "weak",
    pool: Annotated[
        bool, typer.Option("--pool", help="Of groups: each in the light of all.")
    ] = False,
    outcome: Annotated[
        str | None, typer.Option(help="Of a regression.", show_default=False)
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option(help="Its covariates, one or more.", show_default=False)
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Of a regression: predict there, as age=50 sex=m.", show_default=False),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(help="Of groups: the quantity to compare them by.", show_default=False),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            help="What the column is counted in, such as minutes; of several bp=mmHg age=years.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page.", show_default=False)] = None,
    n_prior: Annotated[
        str | None,
        typer.Option(
            help="A prior of n where it is not public, such as 'gamma(shape=4, rate=0.01)'.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="Which method.")] = "auto",
    seed: Annotated[int, typer.Option(help="Makes the page repeatable.")] = 0,
) -> None:
    """One self-contained page: what was published, about whom, at which cost; the posterior, and
    how far to trust it.
    """
    from noisewise.files import check_folder

    if out.suffix != ".html":
        raise typer.BadParameter(f"--out {out} must end in .html.")
    check_folder(out)
    if on is not None and outcome is None:
        raise typer.BadParameter("--on goes with --outcome.")
    if at is not None and outcome is None:
        raise typer.BadParameter("--at goes with --outcome.")

    from noisewise.artifact import load, load_many
    from noisewise.report.context import Context
    from noisewise.report.units import Units

    folder = len(releases) == 1 and (releases[0].is_dir() or releases[0].suffix == ".jsonl")
    found = load_many(releases[0]) if folder else [load(path) for path in releases]
    command = shlex.join(["noisewise", *sys.argv[1:]])
    context = Context(title, Units.asked(unit or [], found[0], outcome), command)
    if pool:
        if outcome is not None:
            raise typer.BadParameter("--pool is of one column; leave --outcome out.")
        if len(found) < 2:
            raise typer.BadParameter(
                "--pool needs several groups: a .jsonl file, a folder, or several release files."
            )
        text = _pooled(found, None if prior == "weak" else prior, n_prior, seed, context)
    elif outcome is not None:
        text = _regression(found, folder, outcome, on or [], at or [], prior, of, seed, context)
    elif folder:
        text = _groups(found, prior, n_prior, method, of, seed, context)
    else:
        text = _one(found, prior, n_prior, method, seed, context)
    with whole(out) as partial:
        partial.write_text(text, encoding="utf-8")
    say(f"wrote {out}")


def _one(
    found: "list[Release]",
    prior: str,
    n_prior: str | None,
    method: str,
    seed: int,
    context: "Context",
) -> str:
    from noisewise.inference.infer import infer, prior_of
    from noisewise.report.release_page import release_page

    own = prior_of(found[0], prior)
    with progress("inferring") as report:
        posterior = infer(found, own, n_prior=n_prior, method=method, seed=seed, progress=report)
        return release_page(posterior, own, found, context).render()


def _groups(
    found: "list[Release]",
    prior: str,
    n_prior: str | None,
    method: str,
    of: str | None,
    seed: int,
    context: "Context",
) -> str:
    from noisewise.inference.infer import infer_many
    from noisewise.report.groups_page import groups_page

    with progress(f"{len(found)} posteriors") as report:
        posteriors = infer_many(
            found, prior, n_prior=n_prior, method=method, seed=seed, progress=report
        )
        return groups_page(posteriors, prior, found, context, of)


def _pooled(
    found: "list[Release]", prior: str | None, n_prior: str | None, seed: int, context: "Context"
) -> str:
    from noisewise.inference.pooling.pool import pool
    from noisewise.report.groups_page import pool_page

    with progress(f"{len(found)} groups") as report:
        pooled = pool(found, prior=prior, n_prior=n_prior, seed=seed, progress=report)
        return pool_page(pooled, context)


def _regression(
    found: "list[Release]",
    many: bool,
    outcome: str,
    on: list[str],
    at: list[str],
    prior: str,
    of: str | None,
    seed: int,
    context: "Context",
) -> str:
    from noisewise.inference.regress import regress, regress_many, regression_prior
    from noisewise.report.groups_page import groups_page
    from noisewise.report.regression_page import regression_page

    own = regression_prior(prior)
    with progress("regressing") as report:
        if many:
            if at:
                raise typer.BadParameter("--at predicts from one regression; give release files.")
            groups = regress_many(found, outcome, on, prior=own, seed=seed, progress=report)
            usual = groups[0].family.coefficients[:1] or ("intercept",)
            return groups_page(groups, own, found, context, of or usual[0])
        posterior = regress(found, outcome, on, prior=own, seed=seed, progress=report)
        values: dict[str, Any] | None = asked_values(posterior, at)
        return regression_page(posterior, own, found, context, values).render()
