"""The page of many groups: each by itself, or in the light of their population."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.pooling.pooled import Pooled, label
from noisewise.inference.posteriors import Posteriors
from noisewise.report.about import subject
from noisewise.report.context import Context, released, source, trust
from noisewise.report.forest import plot_forest
from noisewise.report.page import Page
from noisewise.report.posterior_figures import plot_intervals
from noisewise.report.release_page import main_quantity
from noisewise.report.units import figure_text, rounded, with_unit

MOST_ROWS = 500
"""Of a table on a page; --out of `infer` and `pool` has all of them."""


def groups_page(
    posteriors: Posteriors,
    prior: Any,
    releases: Sequence[Release],
    context: Context,
    name: str | None = None,
) -> str:
    """Every group with its interval, the largest first."""
    solved = [g for g, one in enumerate(posteriors) if one.method != "none"]
    if not solved:
        raise UnsupportedCombination("no group has a posterior; infer from one to see why.")
    first = posteriors[solved[0]]
    column = releases[0].column
    name, place = _asked(first, name)
    units = context.units
    unit = units.quantity(name, column, first.family.kind)
    title = name if column is None else f"{name} of {column}"
    labels = [label(releases, g) for g in solved]
    mean, low, high = (
        np.array([_pick(figures(posteriors[g], name), j, place) for g in solved]) for j in range(3)
    )
    by = releases[0].group[0] if releases[0].group is not None else "group"
    page = Page(context.title or f"{subject(releases[0])} by {by}")
    order = np.argsort(-mean, kind="stable")
    top, last = order[0], order[-1]
    page.words(
        f"Of {len(posteriors)} groups, {labels[top]} has the largest {title}, "
        f"{with_unit(figure_text(mean[top]), unit)} (90 % between {figure_text(low[top])} and "
        f"{figure_text(high[top])}), and {labels[last]} the smallest, "
        f"{with_unit(figure_text(mean[last]), unit)} ({figure_text(low[last])} to "
        f"{figure_text(high[last])}).",
        lead=True,
    )
    page.text(
        "Every group stands by itself here; small groups vary more, so the ends of the list hold "
        "many of them. `noisewise report --pool` weighs each in the light of all."
    )
    if len(solved) < len(posteriors):
        page.warning(f"{len(posteriors) - len(solved)} groups have no posterior, and are left out.")
    made = plot_intervals(labels, mean, low, high, title + (f", {unit}" if unit else ""), sort=True)
    page.figures([(made, f"{title} of each group, sorted: mean and 90 % interval.")])
    page.heading("All groups")
    page.table(
        [
            {
                "group": labels[g],
                "records": "" if releases[solved[g]].n is None else str(releases[solved[g]].n),
                "mean": figure_text(mean[g]),
                "90 % between": f"{figure_text(low[g])} and {figure_text(high[g])}",
            }
            for g in order[:MOST_ROWS]
        ]
    )
    page.words(f"Prior of every group: {rounded(prior)}.")
    trust(page, first.certificate)
    warned = [g for g in solved if posteriors[g].certificate.warnings]
    if warned:
        page.words(
            f"{len(warned)} of {len(posteriors)} groups have warnings: "
            f"{', '.join(label(releases, g) for g in warned[:20])}."
        )
    released(page, releases, context)
    source(page, releases, context)
    return page.render()


def _asked(posterior: Any, name: str | None) -> tuple[str, int]:
    """The quantity that groups are compared by, and which of its numbers: its first."""
    chosen = main_quantity(posterior) if name is None else name
    known = (*posterior.names, *posterior.derived)
    if chosen not in known:
        raise UnsupportedCombination(f"no group has a {chosen!r}; it may be: {', '.join(known)}.")
    return chosen, 0


def figures(posterior: Any, name: str) -> tuple[Any, Any, Any]:
    """Mean (or median where there is none) and both ends of the 90 % interval."""
    mean = posterior.mean(name)
    low, high = posterior.interval(name, 0.9)
    return (posterior.quantile(name, 0.5) if mean is None else mean), low, high


def _pick(values: tuple[Any, Any, Any], which: int, place: int) -> float:
    return float(np.ravel(values[which])[place])


def pool_page(pooled: Pooled, context: Context) -> str:
    """The population, and every group in its light."""
    releases = list(pooled.releases)
    column = releases[0].column
    unit = context.units.quantity(pooled.name, column, releases[0].family.kind)
    by = releases[0].group[0] if releases[0].group is not None else "group"
    page = Page(context.title or f"{subject(releases[0])} by {by}, pooled")
    below, above = pooled.population.interval("mean", 0.9)
    differ = pooled.differ()
    title = pooled.name if column is None else f"{pooled.name} of {column}"
    page.words(
        f"Over {len(pooled)} groups the {title} is "
        f"{with_unit(figure_text(pooled.population.mean('mean')), unit)} on average (90 % between "
        f"{figure_text(below)} and {figure_text(above)}), and varies between groups by an sd of "
        f"{figure_text(pooled.population.mean('spread'))}. {len(differ)} groups differ from the "
        "average with a probability of 95 % or more.",
        lead=True,
    )
    page.figures([(plot_forest(pooled), f"{title} of each group in the light of all, sorted.")])
    if differ:
        page.heading("Groups that differ from the average")
        page.table(
            [
                {
                    "group": row["group"],
                    "side": row["side"],
                    "probability": f"{row['probability']:.3f}",
                    "difference": figure_text(row["difference"]),
                    "90 % between": f"{figure_text(row['5%'])} and {figure_text(row['95%'])}",
                }
                for row in differ
            ]
        )
    page.heading("All groups")
    rows = sorted(enumerate(pooled.table()), key=lambda pair: -pair[1]["mean"])
    page.table(
        [
            {
                "group": pooled.labels[g],
                "mean": figure_text(row["mean"]),
                "90 % between": f"{figure_text(row['5%'])} and {figure_text(row['95%'])}",
                "rank": f"{row['rank']:.1f} ({row['rank_5%']} to {row['rank_95%']})",
                "above average": f"{row['above_average']:.3f}",
            }
            for g, row in rows[:MOST_ROWS]
        ]
    )
    trust(page, pooled.certificate)
    released(page, releases, context)
    source(page, releases, context)
    return page.render()
