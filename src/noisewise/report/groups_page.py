"""The page of many groups: each by itself, or in the light of their population."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.pooling.certified import label
from noisewise.inference.pooling.pooled import Pooled
from noisewise.inference.posterior import Posterior
from noisewise.inference.posteriors import Posteriors
from noisewise.inference.regress import LinearModel
from noisewise.model.family import Family
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
    of: str | None = None,
) -> str:
    """Every group with its interval, the largest first, compared by the quantity `of`."""
    solved = [g for g, one in enumerate(posteriors) if one.method != "none"]
    if not solved:
        raise UnsupportedCombination("no group has a posterior; infer from one to see why.")
    first = posteriors[solved[0]]
    asked = _asked(first, of)
    title, unit = _named(first, asked, releases[0], context)
    labels = [label(releases, g) for g in solved]
    mean, low, high = (
        np.array(
            [float(np.ravel(_figures(posteriors[g], asked.name)[j])[asked.place]) for g in solved]
        )
        for j in range(3)
    )
    by = releases[0].group[0] if releases[0].group is not None else "group"
    page = Page(context.title or f"{title} by {by}")
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
        "Every group stands by itself here. Small groups vary more, so the ends of the list hold "
        "many of them."
    )
    if isinstance(first.family, Family) and first.family.statistic_kind == "sums":
        page.text("`noisewise report --pool` weighs each group in the light of all.")
    if len(solved) < len(posteriors):
        page.warning(f"{len(posteriors) - len(solved)} groups have no posterior, and are left out.")
    made = plot_intervals(labels, mean, low, high, title + (f", {unit}" if unit else ""), sort=True)
    page.figures([(made, f"{title} of each group, sorted: mean and 90 % interval.")])
    page.heading("All groups")
    page.table(
        [
            {
                "group": labels[g],
                **_size(releases[solved[g]]),
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


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """One number of a posterior: the quantity, and its place where that is several."""

    name: str
    place: int
    label: str | None


def _asked(posterior: Posterior, of: str | None) -> Asked:
    """The number that groups are compared by: the one asked for, or the one that people mean."""
    known: dict[str, Asked] = {}
    for name, parameter in zip(posterior.names, posterior.family.parameters, strict=True):
        if parameter.size == 1:
            known[name] = Asked(name, 0, None)
            continue
        labels = [str(one) for one in posterior.family.labels_of(name)]
        known |= {f"{name}[{one}]": Asked(name, j, one) for j, one in enumerate(labels)}
    known |= {name: Asked(name, 0, None) for name in posterior.derived}
    if of is None:
        main = main_quantity(posterior)
        return next(one for one in known.values() if one.name == main)
    if of not in known:
        raise UnsupportedCombination(
            f"groups cannot be compared by {of!r}; --of may be: {', '.join(known)}."
        )
    return known[of]


def _named(
    posterior: Posterior, asked: Asked, release: Release, context: Context
) -> tuple[str, str]:
    """What the number is called, and its unit."""
    units, family = context.units, posterior.family
    if isinstance(family, LinearModel):
        if asked.name not in family.coefficients:
            return f"{asked.name} of {family.outcome.name}", units.column(family.outcome.name)
        over, under = units.column(family.outcome.name), units.column(asked.name)
        ratio = f"{over} per {under.removesuffix('s')}" if over and under else ""
        return f"change of {family.outcome.name} with {asked.name}", ratio
    if asked.label is not None:
        title = f"{asked.name}[{asked.label}]"
        return f"{asked.name} of {asked.label}", units.quantity(title, None, family.kind)
    unit = units.quantity(asked.name, release.column, family.kind)
    return f"{asked.name} of {release.column}" if release.column else asked.name, unit


def _size(release: Release) -> dict[str, str]:
    return {} if release.n is None else {"records": str(release.n)}


def _figures(posterior: Posterior, name: str) -> tuple[Any, Any, Any]:
    """Mean (or median where there is none) and both ends of the 90 % interval."""
    mean = posterior.mean(name)
    low, high = posterior.interval(name, 0.9)
    return (posterior.quantile(name, 0.5) if mean is None else mean), low, high


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
