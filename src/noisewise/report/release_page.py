"""The page of one release, or of several that are combined: a column, a table or several
columns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.posterior import Posterior
from noisewise.inference.table import TablePosterior
from noisewise.model.families.moments import Moments
from noisewise.model.family import Family
from noisewise.report.about import subject
from noisewise.report.context import Context, released, source, trust
from noisewise.report.means import ANY_SHAPE, ColumnMean, means_of, unstated
from noisewise.report.page import Page
from noisewise.report.posterior_figures import plot_against_prior, plot_intervals
from noisewise.report.prior_curves import (
    category_intervals,
    interval,
    prior_draws,
)
from noisewise.report.units import figure_text, rounded, with_unit

OPEN = 300
"""A prior whose interval is so many times that of the posterior is not told in numbers."""
MOST_CATEGORIES = 60
"""That a figure shows; the table has all of them."""


def release_page(
    posterior: Posterior, prior: Any, releases: Sequence[Release], context: Context
) -> Page:
    """What the release says, how sure that is, and where it comes from."""
    first = releases[0]
    page = Page(context.title or f"{subject(first)}: what the release tells")
    means: list[ColumnMean] = []
    if isinstance(posterior.family, Moments):
        means = means_of(posterior, prior, releases)
        _moments(page, posterior, means, context)
    elif posterior.family.parameters[0].size > 1:
        _categories(page, posterior, prior)
    else:
        _numbers(page, posterior, prior, first, context)
    page.heading("All numbers")
    page.table(_rows(posterior, means, first, context))
    if isinstance(posterior.family, Moments) and means and unstated(prior, posterior.family):
        page.words(ANY_SHAPE)
    page.words(f"Prior: {rounded(prior)}.")
    trust(page, posterior.certificate)
    released(page, releases, context)
    source(page, releases, context)
    return page


def main_quantity(posterior: Posterior) -> str:
    """The number that people mean: the mean where there is one."""
    known = (*posterior.names, *posterior.derived)
    if "mean" in known:
        return "mean"
    return posterior.derived[0] if posterior.derived else posterior.names[0]


def said(name: str, column: str | None, value: float | None, ends: Any, unit: str) -> str:
    """One number with its interval, in a sentence."""
    whose = f"The {name.replace('_', ' ')}{f' of {column}' if column else ''}"
    low, high = (figure_text(end) for end in ends)
    middle = f" is {with_unit(figure_text(value), unit)}:" if value is not None else ":"
    return (
        f"{whose}{middle} with a probability of 90 % it lies between {low} and "
        f"{with_unit(high, unit)}."
    )


def _numbers(
    page: Page, posterior: Posterior, prior: Any, release: Release, context: Context
) -> None:
    main, family = main_quantity(posterior), posterior.family
    assert isinstance(family, Family)
    unit = context.units.quantity(main, release.column, family.kind)
    ends = posterior.interval(main, 0.9)
    page.words(said(main, release.column, posterior.mean(main), ends, unit), lead=True)
    before = interval(prior_draws(prior, family, main)[0])
    if before[1] - before[0] > OPEN * (ends[1] - ends[0]):
        page.words("Before the release, the prior left it all but open.")
    else:
        page.words(
            f"Before the release, the prior had it between {figure_text(before[0])} and "
            f"{with_unit(figure_text(before[1]), unit)} with the same probability."
        )
    others = [name for name in (*posterior.names, *posterior.derived) if name != main]
    page.figures(
        [
            (
                plot_against_prior(
                    posterior,
                    prior,
                    name,
                    context.units.quantity(name, release.column, family.kind),
                ),
                f"{name}: belief before the release and after it.",
            )
            for name in (main, *others)
        ]
    )


def _categories(page: Page, posterior: Posterior, prior: Any) -> None:
    """Shares of categories, or of a table's cells."""
    name = posterior.names[0]
    labels = [str(label) for label in posterior.family.labels_of(name)]
    mean, (low, high) = posterior.mean(name), posterior.interval(name, 0.9)
    top = int(np.argmax(mean))
    page.words(
        said(f"share of {labels[top]}", None, float(mean[top]), (low[top], high[top]), ""),
        lead=True,
    )
    before = category_intervals(prior)
    shown = np.sort(np.argsort(-mean, kind="stable")[:MOST_CATEGORIES])
    made = plot_intervals(
        [labels[j] for j in shown],
        mean[shown],
        low[shown],
        high[shown],
        "share of the records",
        (before[0][shown], before[1][shown]),
    )
    more = f", the {shown.size} largest" if shown.size < mean.size else ""
    page.figures([(made, f"Share of each category{more}: 90 % intervals before and after.")])
    if isinstance(posterior, TablePosterior):
        _margins(page, posterior)


def _margins(page: Page, posterior: TablePosterior) -> None:
    """The shares of every column's levels, and how far two columns go together."""
    rows = []
    for column in posterior.family.parts:
        value = posterior.share(column.name)
        low, high = value.interval(0.9)
        rows += [
            {
                "column": str(column.name),
                "level": label,
                "share": figure_text(m),
                "90 % between": f"{figure_text(a)} and {figure_text(b)}",
            }
            for label, m, a, b in zip(value.labels, value.mean, low, high, strict=True)
        ]
    page.heading("Each column by itself")
    page.table(rows)
    parts = [one for one in posterior.family.parts if len(one.levels) > 1]
    pairs = [(a.name, b.name) for j, a in enumerate(parts) for b in parts[j + 1 :]]
    if pairs:
        page.heading("Do the columns go together?")
        page.text("Cramér's V: 0 where neither column tells of the other, 1 where one tells all.")
        page.table([_association(posterior, a, b) for a, b in pairs])


def _association(posterior: TablePosterior, one: str, other: str) -> dict[str, Any]:
    value = posterior.association(one, other)
    low, high = value.interval(0.9)
    return {
        "columns": f"{one} and {other}",
        "Cramér's V": figure_text(value.mean),
        "90 % between": f"{figure_text(low)} and {figure_text(high)}",
    }


def _moments(
    page: Page, posterior: Posterior, means: Sequence[ColumnMean], context: Context
) -> None:
    """Means of columns, each on an axis of its own: their units differ; shares on one."""
    family = posterior.family
    assert isinstance(family, Moments)
    figures = []
    for j, (one, known) in enumerate(zip(family.numeric, means, strict=True)):
        unit, middle = context.units.column(one.name), known.figures["mean"]
        page.words(said("mean", one.name, middle, known.ends, unit), lead=j == 0)
        for warning in known.warnings:
            page.warning(warning)
        ends = (middle, *known.ends, *known.before)
        at, low, high, *before = (np.array([end], dtype=float) for end in ends)
        made = plot_intervals(
            [one.name],
            at,
            low,
            high,
            f"mean of {one.name}" + (f", {unit}" if unit else ""),
            (before[0], before[1]),
        )
        figures.append((made, f"Mean of {one.name}: before the release and after it."))
    for factor in family.factors:
        name = f"share[{factor.name}]"
        mean, (low, high) = posterior.mean(name), posterior.interval(name, 0.9)
        before_share = category_intervals(_even(len(factor.levels)))
        made = plot_intervals(
            [str(level) for level in factor.levels],
            mean,
            low,
            high,
            f"share of {factor.name}",
            before_share,
        )
        figures.append((made, f"Shares of {factor.name}: before the release and after it."))
    page.figures(figures)


def _even(levels: int) -> Any:
    """The prior of a factor's shares."""
    from noisewise.model.priors import Dirichlet

    return Dirichlet([1.0] * levels)


def _rows(
    posterior: Posterior, means: Sequence[ColumnMean], release: Release, context: Context
) -> list[dict[str, Any]]:
    rows, found = [], iter(means)
    for row in posterior.summary():
        if means and row["name"].startswith("mean"):
            row = row | next(found).figures
        unit = context.units.quantity(row["name"], release.column, posterior.family.kind)
        rows.append(
            {
                "": row["name"],
                "mean": figure_text(row["mean"]),
                "sd": figure_text(row["sd"]),
                "median": figure_text(row["50%"]),
                "90 % between": f"{figure_text(row['5%'])} and {figure_text(row['95%'])}",
            }
            | ({"unit": unit} if context.units.every or context.units.named else {})
        )
    return rows
