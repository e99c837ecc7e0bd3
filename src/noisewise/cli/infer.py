"""`noisewise infer`: the posterior given a release, or one for each of many."""

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from noisewise.cli.progress import progress
from noisewise.cli.screen import say
from noisewise.cli.targets import (
    OUT_HELP,
    check_targets,
    on_screen,
    show_many,
    whole,
    write_one,
)

if TYPE_CHECKING:
    from noisewise.artifact import Release
    from noisewise.inference.posterior import Posterior
    from noisewise.model.priors import Prior

PRIOR_HELP = (
    "The prior, such as 'gamma(shape=2, rate=20)'; any of SciPy's distributions, such as "
    "'rate ~ lognorm(s=1, scale=0.1)'; or weak, a documented one derived from the bounds."
)


class InferCommand(TyperCommand):
    """Its help names every method; the registry is loaded only to show it."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from noisewise.inference import methods

        for parameter in self.params:
            if parameter.name == "method":
                parameter.help = methods.describe()  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def infer(
    releases: Annotated[
        list[Path],
        typer.Argument(
            help="Release files; or one .jsonl file or folder of many groups.", show_default=False
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
    method: Annotated[str, typer.Option(help="Which method.")] = "auto",
    draws: Annotated[int, typer.Option(help="How many draws --out x.nc holds, about.")] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Makes the draws repeatable.", show_default=False)
    ] = None,
    variant: Annotated[str, typer.Option(help="For gibbs: joint or paper.")] = "joint",
    chains: Annotated[int, typer.Option(help="For gibbs: how many chains.")] = 8,
    out: Annotated[
        Path | None,
        typer.Option(help=OUT_HELP, show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to draw the posterior (.svg, .png or .pdf).", show_default=False),
    ] = None,
    each: Annotated[
        bool,
        typer.Option(
            "--each", help="One posterior for each release, instead of one for all together."
        ),
    ] = False,
    difference: Annotated[
        bool,
        typer.Option(
            "--difference", help="With --each and two releases: the first less the second."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The posterior of a release's parameters; several releases of different records
    are combined.
    """
    folder = len(releases) == 1 and (releases[0].is_dir() or releases[0].suffix == ".jsonl")
    many = folder or each
    if difference and not each:
        raise typer.BadParameter("--difference compares two posteriors; say --each, too.")
    check_targets(out, None if difference else plot, many)
    if difference:
        check_targets(None, plot, False)

    from noisewise.artifact import load, load_many

    found = load_many(releases[0]) if folder else [load(path) for path in releases]
    if len(found) > 1 and not many:
        say(
            f"combining {len(found)} releases as one population; --each gives one posterior for "
            "each.",
            aside=as_json,
        )
    if prior is None:
        from noisewise.inference.problem import example

        raise typer.BadParameter(
            f"a posterior needs a prior: what was believed of the {found[0].family.kind} family's "
            "parameters before. Say it, "
            f'such as --prior "{example(found[0].family)}", or --prior weak for a weakly '
            "informative one derived from the bounds."
        )
    if difference:
        from noisewise.cli.difference import compare

        if len(found) != 2:
            raise typer.BadParameter(f"--difference needs two releases, got {len(found)}.")
        names = _names(found, releases)
        compare(found, names, prior, n_prior, method, draws, seed, out, plot, as_json)
    elif many:
        _many(found, prior, n_prior, method, draws, seed, out, as_json)
    else:
        from noisewise.inference.infer import prior_of

        _one(
            found,
            prior_of(found[0], prior),
            n_prior,
            method,
            draws,
            seed,
            variant,
            chains,
            out,
            plot,
            as_json,
        )


def _names(found: "list[Release]", paths: list[Path]) -> tuple[str, str]:
    """What two releases are called: their groups, or their files."""
    said = [
        one.group[1] if one.group is not None else path.name
        for one, path in zip(found, paths * 2, strict=False)
    ]
    return said[0], said[1]


def _one(
    found: "list[Release]",
    prior: "Prior",
    n_prior: str | None,
    method: str,
    draws: int,
    seed: int | None,
    variant: str,
    chains: int,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    from noisewise.inference.infer import infer as run

    with progress("inferring") as report:
        posterior = run(
            found,
            prior,
            n_prior=n_prior,
            method=method,
            draws=draws,
            seed=seed,
            variant=variant,
            chains=chains,
            progress=report,
        )
    if as_json:
        print(json.dumps(_content(posterior, prior), indent=2, allow_nan=False))
    else:
        _print(posterior, prior)
    if out is not None:
        write_one(posterior, out, as_json)
    if plot is not None:
        with whole(plot) as partial:
            posterior.plot().savefig(partial)
        say(f"wrote {plot}", aside=as_json)


def _content(posterior: "Posterior", prior: "Prior") -> dict[str, Any]:
    return {
        "family": posterior.family.describe(),
        "prior": {"kind": prior.kind} | _settings(prior),
        "method": posterior.method,
        "summary": list(posterior.summary()),
        "certificate": posterior.certificate.content,
    }


def _print(posterior: "Posterior", prior: "Prior") -> None:
    from noisewise.report.terminal import sketch

    summary = posterior.summary()
    lines = str(type(summary)(on_screen(summary))).split("\n")
    say(
        "\n".join(lines[:41])
        + (f"\n... and {len(lines) - 41} more; --json shows all" if len(lines) > 41 else "")
    )
    for name in posterior.names:
        if posterior.family.parameters[posterior.names.index(name)].size == 1:
            say(f"\n{sketch(posterior, name)}")
    settings = ", ".join(f"{k}={_short(v)}" for k, v in _settings(prior).items())
    say(f"\nprior {prior if not is_dataclass(prior) else f'{prior.kind}({settings})'}")
    say(posterior.certificate.sentence)
    for assumption in posterior.certificate.assumptions:
        say(f"assumed: {assumption}.")


def _settings(prior: "Prior") -> dict[str, Any]:
    """By name; of an independent prior each parameter's distribution."""
    return asdict(prior) if is_dataclass(prior) else prior.hyperparameters


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, (int, float)) else str(list(value))
    return text if len(text) < 60 else f"{text[:56]}...]"


def _many(
    found: "list[Release]",
    prior: str,
    n_prior: str | None,
    method: str,
    draws: int,
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    from noisewise.inference.infer import infer_many

    with progress(f"{len(found)} posteriors") as report:
        table = infer_many(
            found, prior, n_prior=n_prior, method=method, draws=draws, seed=seed, progress=report
        ).table()
    show_many(table, out, as_json)
