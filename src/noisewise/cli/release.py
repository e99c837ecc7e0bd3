"""`noisewise release`: publish the noisy statistic of one column, or of several."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from noisewise.asked.bounds import NO_OUTSIDE, asked_bounds, asked_missing
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import pair, whole
from noisewise.cli.columns import MOMENTS_HELP, TABLE_HELP, one_by_one
from noisewise.cli.screen import say

if TYPE_CHECKING:
    from noisewise.artifact import Release
    from noisewise.curator.ledger import Ledger
    from noisewise.model.bounds import Bounds, PrivateBounds

FAMILY_HELP = (
    "The model of a record: bernoulli, exponential, poisson, geometric, normal, 'normal(mean=0)', "
    "'normal(variance=4)', 'gamma(shape=2)', or \"categorical(categories=['a','b'],other='b')\"."
)
"""The help of --family, here and for an audit."""


class ReleaseCommand(TyperCommand):
    """Lets `--bounds` take either two numbers or the word `private`, and `--moments` and `--table`
    a list of columns.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = one_by_one(args)
        rewritten: list[str] = []
        for position, argument in enumerate(args):
            if argument == "--bounds=private" or (
                argument == "--bounds" and args[position + 1 : position + 2] == ["private"]
            ):
                rewritten.append("--private-bounds")
            elif not (argument == "private" and args[position - 1] == "--bounds" and position > 0):
                rewritten.append(argument)
        for position, argument in enumerate(rewritten):
            if argument == "--bounds" and not _two_numbers(rewritten[position + 1 : position + 3]):
                raise typer.BadParameter(
                    "--bounds takes two numbers, LOWER UPPER, or the word private."
                )
        return super().parse_args(ctx, rewritten)


def _two_numbers(words: list[str]) -> bool:
    try:
        return len([float(word) for word in words]) == 2
    except ValueError:
        return False


def release(
    records: Annotated[
        Path,
        typer.Argument(
            help="A .csv or .parquet file, or a folder of .parquet files.", show_default=False
        ),
    ],
    column: Annotated[
        str | None, typer.Option(help="The column to release.", show_default=False)
    ] = None,
    family: Annotated[str | None, typer.Option(help=FAMILY_HELP, show_default=False)] = None,
    moments: Annotated[
        list[str] | None, typer.Option(help=MOMENTS_HELP, show_default=False)
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help=TABLE_HELP, show_default=False)] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The privacy cost.", show_default=False)
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            help="With --epsilon: the chance that it may fail; normal noise.", show_default=False
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(help="The privacy cost in zCDP instead; normal noise.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the release (JSON).", show_default=False)
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger to charge.", show_default=False)
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Charge no ledger; the release says so.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="The dataset's name in the ledger.", show_default=False)
    ] = None,
    bounds: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="The values that count, known without looking: LOWER UPPER. Or the word private.",
            show_default=False,
        ),
    ] = None,
    outside: Annotated[
        str | None,
        typer.Option(
            help="What becomes of records outside the bounds: redact or clamp.", show_default=False
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="A missing record's value (clamp: midpoint; bernoulli: 0); or drop: it is none.",
            show_default=False,
        ),
    ] = None,
    private_bounds: Annotated[bool, typer.Option("--private-bounds", hidden=True)] = False,
    bounds_range: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Public range of private bounds: LOWER UPPER.", show_default=False),
    ] = None,
    bounds_epsilon: Annotated[
        str | None,
        typer.Option(help="The cost of private bounds, on top of --epsilon.", show_default=False),
    ] = None,
    quantiles: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Quantiles that private bounds aim at (0.01 0.99).", show_default=False),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="A column that says whose a record is: no more of each are kept than "
            "--records-per-person.",
            show_default=False,
        ),
    ] = None,
    records_per_person: Annotated[
        str, typer.Option(help="How many records one person may own.")
    ] = "1",
    neighbours: Annotated[
        str,
        typer.Option(
            help="Neighbouring tables: replace_one (n is public) or add_remove (it is not)."
        ),
    ] = "replace_one",
    by: Annotated[
        str | None,
        typer.Option(
            help="A column of groups; each gets a release of its own.", show_default=False
        ),
    ] = None,
    groups_file: Annotated[
        Path | None,
        typer.Option(
            help="With --by: the public names of the groups, one on each line.", show_default=False
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="With --by: is each group's n public, or released with noise?", show_default=False
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option(help="A sentence for whoever reads the release.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be released, spend nothing.")
    ] = False,
) -> None:
    """Publish the noisy statistic of one column of sensitive records, or of several."""
    if (ledger is None) != no_ledger:
        raise typer.BadParameter("say either --ledger FILE --dataset NAME, or --no-ledger.")
    if out is None and not dry_run:
        raise typer.BadParameter("say where to write the release: --out FILE, or use --dry-run.")
    if (by is None) != (groups_file is None) or (by is None) != (sizes is None):
        raise typer.BadParameter(
            "--by COLUMN, --groups-file FILE and --sizes public (or released) go together."
        )
    if by is not None and out is not None and out.suffix != ".jsonl":
        raise typer.BadParameter(
            "releases of many groups are written one on each line; name the --out file .jsonl."
        )
    chosen = _bounds(
        pair(bounds, "--bounds"),
        private_bounds,
        pair(bounds_range, "--bounds-range"),
        bounds_epsilon,
        pair(quantiles, "--quantiles"),
        outside,
    )

    from noisewise.curator.forecast import forecast
    from noisewise.curator.publish import prepare
    from noisewise.curator.settings import Settings

    settings = Settings(
        column=column,
        family=asked_family(family, moments, table),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        ledger=ledger,
        dataset=dataset,
        bounds=chosen,
        missing=asked_missing(missing),
        person=person,
        records_per_person=whole(records_per_person, "--records-per-person"),
        neighbours=neighbours,
        by=by,
        groups=None if groups_file is None else _groups(groups_file),
        sizes=sizes,
        description=description,
        out=out,
    )
    request = prepare(records, settings)
    if dry_run:
        say(forecast(request))
        return
    with _progress():
        releases = request.publish()
    # the release is made and paid for: nothing from here on may look like a failure
    with suppress(Exception):
        first = releases[0]
        size = f"{len(releases)} groups by {by!r}" if by is not None else _size(first)
        kind = first.family.kind
        say(f"wrote {out}: {kind} of {settings.named}, {size}, cost {settings.total}")
        if request.ledger is not None:
            say(_balance(request.ledger, request.dataset))
        sys.stdout.flush()
        return
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _size(made: "Release") -> str:
    if made.family.statistic_kind == "counts" and not made.family.complete:
        return f"{made.family.dimension} cells"
    return "n not public" if made.n is None else f"n = {made.n}"


def _groups(path: Path) -> list[str]:
    """The names in a file of public groups: no table of records, so its errors may be shown."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise typer.BadParameter(
            f"{path} is not text in UTF-8; it must name one group on each line."
        ) from None
    return [line.strip() for line in lines if line.strip()]


def _bounds(
    bounds: tuple[float, float] | None,
    private: bool,
    span: tuple[float, float] | None,
    epsilon: str | None,
    quantiles: tuple[float, float] | None,
    outside: str | None,
) -> "Bounds | PrivateBounds | None":
    from noisewise.model.bounds import PrivateBounds

    if not private:
        if span is not None or epsilon is not None or quantiles is not None:
            raise typer.BadParameter(
                "--bounds-range, --bounds-epsilon and --quantiles go with --bounds private."
            )
        return asked_bounds(bounds, outside)
    if span is None or epsilon is None or bounds is not None:
        raise typer.BadParameter(
            "--bounds private needs --bounds-range LOWER UPPER and --bounds-epsilon EPSILON."
        )
    if outside is None:
        raise typer.BadParameter(NO_OUTSIDE)
    return PrivateBounds(
        *span,
        epsilon=epsilon,
        quantiles=quantiles or (0.01, 0.99),
        outside=outside,  # type: ignore[arg-type]
    )


def _balance(ledger: "Ledger", dataset: str | None) -> str:
    """What the release has left of the budget."""
    from noisewise.mechanism.privacy import text

    now = next(account for account in ledger.accounts() if account.dataset == dataset)
    limit = text(now.limit.amount if now.limit is not None else now.spent)
    return f"ledger {ledger.path}: {text(now.left)} left of {limit} for {dataset}"


def _progress() -> Any:
    """A spinner on standard error while the records are read, where a person is watching."""
    from rich.console import Console

    return Console(stderr=True).status("reading the records")
