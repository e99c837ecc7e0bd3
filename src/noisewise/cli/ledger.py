"""`noisewise ledger`: what was spent on which dataset, and what is left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from noisewise.cli.screen import say, shown

app = typer.Typer(help="What was spent on which dataset, and what is left.", no_args_is_help=True)
"""The command and its three parts."""
File = Annotated[Path, typer.Argument(help="The ledger file.", show_default=False)]
"""The first argument of each part."""


@app.command("set-limit")
def set_limit(
    ledger: File,
    dataset: Annotated[
        str,
        typer.Option(help="The name that the dataset's budget stands under.", show_default=False),
    ],
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="The total epsilon that may ever be spent on it; 0 freezes it.", show_default=False
        ),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(help="With epsilon: a limit in the rho that both allow.", show_default=False),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(help="The total in rho (zCDP), for normal noise.", show_default=False),
    ] = None,
) -> None:
    """Set a dataset's total budget; creates the ledger if there is none."""
    from noisewise.curator.costs import asked_limit
    from noisewise.curator.ledger import Ledger
    from noisewise.mechanism.privacy import text

    limit = asked_limit(epsilon, delta, rho)
    account = Ledger(ledger).set_limit(dataset, limit)
    assert account.limit is not None
    left = f"spent {text(account.spent)}, left {text(account.left)}"
    say(f"{_name(account.dataset)}: limit {text(limit.amount)} in {account.limit.currency}, {left}")


@app.command()
def show(ledger: File) -> None:
    """Limit, spent and left for every dataset."""
    from noisewise.curator.ledger import Ledger
    from noisewise.mechanism.privacy import text

    rows = [
        (
            _name(a.dataset),
            *(("", "none") if a.limit is None else (a.limit.currency, text(a.limit.amount))),
            text(a.spent),
            text(a.left),
            str(a.releases),
        )
        for a in Ledger(ledger).accounts()
    ]
    _table(("dataset", "in", "limit", "spent", "left", "releases"), rows)


@app.command()
def history(
    ledger: File,
    dataset: Annotated[
        str | None, typer.Option(help="Only this dataset.", show_default=False)
    ] = None,
) -> None:
    """Every limit that was set and every release that was paid for, oldest first."""
    from noisewise.curator.ledger import Ledger

    entries = Ledger(ledger).history(dataset)
    _table(
        ("time (UTC)", "dataset", "cost", "what", "spend id"),
        [
            (e.at[:19].replace("T", " "), _name(e.dataset), str(e.cost), e.what, e.spend or "")
            for e in entries
        ],
    )


def _name(dataset: str) -> str:
    """A name as it is written; one that might look like another, character by character."""
    from noisewise.curator.names import looks

    return dataset if dataset == looks(dataset) else ascii(dataset)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    lines = [header, *(tuple(map(shown, row)) for row in rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(header))]
    for row in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
