"""`noisewise audit`: attack our own releases, and say how much privacy they spend at least."""

from typing import Annotated

import typer

from noisewise.asked.bounds import asked_missing
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import pair, whole
from noisewise.cli.columns import MOMENTS_HELP, TABLE_HELP
from noisewise.cli.progress import progress
from noisewise.cli.release import FAMILY_HELP, _bounds
from noisewise.cli.screen import say


def audit(
    family: Annotated[str | None, typer.Option(help=FAMILY_HELP, show_default=False)] = None,
    moments: Annotated[
        list[str] | None, typer.Option(help=MOMENTS_HELP, show_default=False)
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help=TABLE_HELP, show_default=False)] = None,
    bounds: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="LOWER UPPER. Or the word private: the choice of the bounds is attacked.",
            show_default=False,
        ),
    ] = None,
    outside: Annotated[
        str | None, typer.Option(help="redact or clamp.", show_default=False)
    ] = None,
    private_bounds: Annotated[bool, typer.Option("--private-bounds", hidden=True)] = False,
    bounds_range: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Public range of private bounds: LOWER UPPER.", show_default=False),
    ] = None,
    bounds_epsilon: Annotated[
        str | None,
        typer.Option(
            help="The declared cost of private bounds; --epsilon may be left out.",
            show_default=False,
        ),
    ] = None,
    quantiles: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Quantiles that private bounds aim at (0.01 0.99).", show_default=False),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The declared cost.", show_default=False)
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="With --epsilon: normal noise.", show_default=False)
    ] = None,
    rho: Annotated[
        str | None, typer.Option(help="The declared cost in zCDP.", show_default=False)
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="A missing record's value, or drop.", show_default=False)
    ] = None,
    neighbours: Annotated[str, typer.Option(help="replace_one or add_remove.")] = "replace_one",
    records_per_person: Annotated[
        str, typer.Option(help="How many records one person may own.")
    ] = "1",
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Of a release by groups, here two: public or released.", show_default=False
        ),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(
            min=100,
            help="Releases of each of the two tables told apart best; a "
            "quarter of it of the others tried.",
        ),
    ] = 20_000,
) -> None:
    """Release small neighbouring tables many times, attack, and report a lower bound on the privacy
    really spent.
    """
    limits = _bounds(
        pair(bounds, "--bounds"),
        private_bounds,
        pair(bounds_range, "--bounds-range"),
        bounds_epsilon,
        pair(quantiles, "--quantiles"),
        outside,
    )

    from noisewise.curator import audit as audits

    with progress("releasing") as report:
        outcome = audits.audit(
            asked_family(family, moments, table),
            bounds=limits,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            missing=asked_missing(missing),
            neighbours=neighbours,
            records_per_person=whole(records_per_person, "--records-per-person"),
            sizes=sizes,
            runs=runs,
            progress=report,
        )
    currency = outcome.declared.currency
    what = " for the bounds" if private_bounds else ""
    say(f"tables {outcome.tables[0]} and {outcome.tables[1]}, {outcome.runs} releases of each")
    say(f"the strongest attack: {outcome.attack}")
    say(
        f"declared {outcome.declared}{what}; at least {currency} = {outcome.bound:.4g} is spent, "
        f"with confidence {audits.CONFIDENCE:g}"
    )
    if not outcome.kept:
        print("MORE IS SPENT THAN DECLARED: do not release, and report this.")
        raise typer.Exit(1)
    print("no more is seen to be spent than declared.")
