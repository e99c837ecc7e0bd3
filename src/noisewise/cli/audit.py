"""`noisewise audit`: attack our own releases, and say how much privacy they spend at least."""

from typing import Annotated

import typer

from noisewise.cli.numbers import pair, whole
from noisewise.cli.progress import progress
from noisewise.cli.release import FAMILY_HELP
from noisewise.cli.screen import say


def audit(
    family: Annotated[str, typer.Option(help=FAMILY_HELP, show_default=False)],
    bounds: Annotated[tuple[str, str] | None, typer.Option(help="LOWER UPPER.", show_default=False)] = None,
    outside: Annotated[str | None, typer.Option(help="redact or clamp.", show_default=False)] = None,
    epsilon: Annotated[str | None, typer.Option(help="The declared cost.", show_default=False)] = None,
    delta: Annotated[str | None, typer.Option(help="With --epsilon: normal noise.", show_default=False)] = None,
    rho: Annotated[str | None, typer.Option(help="The declared cost in zCDP.", show_default=False)] = None,
    neighbours: Annotated[str, typer.Option(help="replace_one or add_remove.")] = "replace_one",
    records_per_person: Annotated[str, typer.Option(help="How many records one person may own.")] = "1",
    sizes: Annotated[
        str | None, typer.Option(help="Of a release by groups, here two: public or released.", show_default=False)
    ] = None,
    runs: Annotated[int, typer.Option(min=100, help="Releases of each of the two tables.")] = 20_000,
) -> None:
    """Release two neighbouring tables many times, attack, and report a lower bound on the privacy really spent."""
    if (bounds is None) != (outside is None):
        raise typer.BadParameter("--bounds LOWER UPPER and --outside redact (or clamp) go together.")

    from noisewise.curator import audit as audits
    from noisewise.model import notation
    from noisewise.model.bounds import Bounds

    limits = None if bounds is None or outside is None else Bounds(*pair(bounds, "--bounds"), outside=outside)  # type: ignore[arg-type]
    with progress("releasing") as report:
        found = audits.audit(
            notation.family(family), bounds=limits, epsilon=epsilon, delta=delta, rho=rho, neighbours=neighbours,
            records_per_person=whole(records_per_person, "--records-per-person"), sizes=sizes, runs=runs, progress=report,
        )  # fmt: skip
    currency = found.declared.currency
    say(f"tables {found.tables[0]} and {found.tables[1]}, {found.runs} releases of each")
    say(f"declared {found.declared}; at least {currency} = {found.bound:.4g} is spent, with confidence {audits.CONFIDENCE:g}")
    if not found.kept:
        print("MORE IS SPENT THAN DECLARED: do not release, and report this.")
        raise typer.Exit(1)
    print("no more is seen to be spent than declared.")
