"""`noisewise plan`: which epsilon buys which precision. It reads no record and spends nothing."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from noisewise.asked.bounds import asked_bounds, asked_truth
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import number, pair, whole
from noisewise.cli.columns import MOMENTS_HELP, TABLE_HELP, one_by_one
from noisewise.cli.progress import progress
from noisewise.cli.release import FAMILY_HELP
from noisewise.cli.screen import say
from noisewise.cli.several import SeveralCommand
from noisewise.cli.targets import check_targets
from noisewise.cli.targets import whole as whole_file

if TYPE_CHECKING:
    from noisewise.study.planning import Plan


class PlanCommand(SeveralCommand):
    """`--n 500 2000`, `--truth rate=0.07`, `--moments bp:60:220 age:0:100`."""

    several: ClassVar[tuple[str, ...]] = ("--n", "--epsilon", "--rho", "--truth", "--on", "--of")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, one_by_one(args))


def plan(
    n: Annotated[
        list[str], typer.Option(help="Numbers of records, one or more.", show_default=False)
    ],
    family: Annotated[str | None, typer.Option(help=FAMILY_HELP, show_default=False)] = None,
    moments: Annotated[
        list[str] | None, typer.Option(help=MOMENTS_HELP, show_default=False)
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help=TABLE_HELP, show_default=False)] = None,
    bounds: Annotated[
        tuple[str, str] | None,
        typer.Option(help="The values that count: LOWER UPPER.", show_default=False),
    ] = None,
    outside: Annotated[
        str | None,
        typer.Option(
            help="What becomes of records outside the bounds: redact or clamp.", show_default=False
        ),
    ] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Privacy costs, one or more.", show_default=False)
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="With --epsilon: normal noise.", show_default=False)
    ] = None,
    rho: Annotated[
        list[str] | None,
        typer.Option(help="Privacy costs in zCDP instead; normal noise.", show_default=False),
    ] = None,
    truth: Annotated[
        list[str] | None,
        typer.Option(
            help="A guess to simulate at, such as rate=0.07, or mean=14; of --moments such as "
            "'mean[age]=50' 'sd[age]=18'.",
            show_default=False,
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="To infer with (weak by default) and, without --truth, to draw truths from.",
            show_default=False,
        ),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Of a regression, with --moments.", show_default=False)
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option(help="Its covariates, one or more.", show_default=False)
    ] = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            help="Whose intervals, such as rate; the mean by default.", show_default=False
        ),
    ] = None,
    level: Annotated[str, typer.Option(help="Of the intervals.")] = "0.9",
    width: Annotated[
        str | None,
        typer.Option(
            help="A wanted width: which epsilon for each n, which n for each epsilon?",
            show_default=False,
        ),
    ] = None,
    neighbours: Annotated[
        str,
        typer.Option(
            help="Neighbouring tables: replace_one (n is public) or add_remove (it is not)."
        ),
    ] = "replace_one",
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Of groups, n being each one's: is that public, or released with noise?",
            show_default=False,
        ),
    ] = None,
    records_per_person: Annotated[
        str, typer.Option(help="How many records one person may own.")
    ] = "1",
    unit: Annotated[str, typer.Option(help="What the column is counted in, such as minutes.")] = "",
    trials: Annotated[
        int | None,
        typer.Option(
            help="Simulated releases for each n and cost; else as many as it takes.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to draw the widths (.svg, .png or .pdf).", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write it all as one page (.html).", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Which epsilon buys which precision: widths of intervals in the column's units, simulated."""
    if out is not None and out.suffix != ".html":
        raise typer.BadParameter(f"--out {out} must end in .html.")
    check_targets(None, plot, False)
    check_targets(None, None if out is None else out.with_suffix(".svg"), False)
    wanted = None if width is None else number(width, "--width")

    from noisewise.study.planning import answers
    from noisewise.study.planning.plan import plan as run

    with progress("simulating") as report:
        made = run(
            family=asked_family(family, moments, table),
            bounds=asked_bounds(pair(bounds, "--bounds"), outside),
            n=[whole(size, "--n") for size in n],
            epsilon=_numbers(epsilon, "--epsilon"),
            rho=_numbers(rho, "--rho"),
            delta=delta,
            truth=None if truth is None else asked_truth(truth),
            prior=prior,
            level=number(level, "--level"),
            outcome=outcome,
            on=on,
            of=of,
            neighbours=neighbours,
            sizes=sizes,
            records_per_person=whole(records_per_person, "--records-per-person"),
            trials=trials,
            seed=seed,
            jobs=len(os.sched_getaffinity(0)),
            progress=report,
        )
    found = None
    if wanted is not None:
        with progress("looking for the width") as report:
            found = answers.for_width(made, wanted, report)
    if as_json:
        print(json.dumps(_content(made, found), indent=2, allow_nan=False))
    else:
        _print(made, unit, wanted, found)
    if plot is not None:
        with whole_file(plot) as partial:
            made.plot(unit=unit).savefig(partial, dpi=150)
        say(f"wrote {plot}", aside=as_json)
    if out is not None:
        from noisewise.study.planning.page import page

        with whole_file(out) as partial:
            command = shlex.join(["noisewise", *sys.argv[1:]])
            partial.write_text(page(made, command, unit, wanted).render())
        say(f"wrote {out}", aside=as_json)


def _content(made: "Plan", found: list[dict[str, Any]] | None) -> dict[str, Any]:
    asked = {} if found is None else {"for_width": found}
    return {
        "about": made.design.about,
        "table": made.table(),
        **asked,
        "meaning": [made.meaning(amount).sentence for amount in made.amounts],
    }


def _print(
    made: "Plan", unit: str, wanted: float | None, found: list[dict[str, Any]] | None
) -> None:
    from noisewise.study.planning import answers

    say(f"{made.design.about}.")
    for name in made.names:
        say(f"\n{answers.heading(made, name, unit if name == made.names[0] else '')}")
        _print_grid(answers.grid(made, name))
    say(f"\n{answers.accuracy(made)}")
    if found is not None:
        say(f"\nFor an interval of {wanted:g}{unit and f' {unit}'}:")
        for row in found:
            say(f"  {row['given']}: {row['needs']}")
    say("")
    for amount in made.amounts:
        say(made.meaning(amount).sentence)


def _print_grid(rows: list[dict[str, Any]]) -> None:
    lines = [list(rows[0])]
    lines += [
        [f"{x:.4g}" if isinstance(x, float) else str(x) for x in row.values()] for row in rows
    ]
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    for line in lines:
        say("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))


def _numbers(texts: list[str] | None, option: str) -> list[float] | None:
    return None if texts is None else [number(text, option) for text in texts]
