"""A plan in words, for a terminal and a page: a grid of widths, and what gives a wanted one."""

from collections.abc import Callable
from functools import partial
from typing import Any

from noisewise.errors import NoisewiseError
from noisewise.study.planning.plan import Plan

LEAST_SHOWN = 0.001
"""Monte Carlo errors below this, of the width, are not told apart."""


def heading(plan: Plan, name: str, unit: str) -> str:
    """What a grid of widths shows."""
    return f"Width of the {plan.level * 100:g} % interval of {name}{unit and f', in {unit}'}"


def grid(plan: Plan, name: str) -> list[dict[str, Any]]:
    """One row for each n, with a column for each cost, and the width without noise."""
    symbol, place = plan.payment.symbol, plan.names.index(name)
    rows = []
    for n in plan.n:
        cells = {amount: plan.found[n, amount] for amount in plan.amounts}
        row: dict[str, Any] = {"n": n}
        for amount, found in cells.items():
            row[f"{symbol} = {amount:g}"] = float(found.typical()[place])
        row["without noise"] = float(cells[plan.amounts[-1]].non_private()[place])
        rows.append(row)
    return rows


def accuracy(plan: Plan) -> str:
    """How well the widths are known."""
    found = [plan.found[n, amount] for n in plan.n for amount in plan.amounts]
    worst = max(float((one.error() / one.typical()).max()) for one in found)
    few = min(len(one.private) for one in found)
    many = max(len(one.private) for one in found)
    trials = f"{few}" if few == many else f"{few} to {many}"
    return (
        f"Medians over {trials} simulated releases each; their Monte Carlo error is at most "
        f"{100 * max(worst, LEAST_SHOWN):.1f} %. Nothing was read, and nothing is spent."
    )


def for_width(
    plan: Plan, width: float, progress: Callable[[float], None] | None = None
) -> list[dict[str, Any]]:
    """The cost that each n needs, and the n that each cost needs, for the main quantity; or why
    there is none.
    """
    symbol = plan.payment.symbol
    asked: list[tuple[str, str, Callable[[], float]]] = [
        (f"n = {n}", symbol, partial(plan.epsilon_for, width, n)) for n in plan.n
    ]
    asked += [
        (f"{symbol} = {amount:g}", "n", partial(plan.n_for, width, amount))
        for amount in plan.amounts
    ]
    rows = []
    for given, what, ask in asked:
        rows.append({"given": given} | _answer(ask, what))
        if progress is not None:
            progress(len(rows) / len(asked))
    return rows


def _answer(ask: Callable[[], float], what: str) -> dict[str, Any]:
    try:
        value = ask()
    except NoisewiseError as refusal:
        return {"needs": str(refusal), "value": None}
    return {"needs": f"{what} = {value if what == 'n' else f'{value:g}'}", "value": value}
