"""The page of a regression."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.regress import RegressionPosterior
from noisewise.model.column_priors import Linear
from noisewise.model.columns import Number
from noisewise.report.coefficients import plot_coefficients, round_step
from noisewise.report.context import Context, released, source, trust
from noisewise.report.page import Page
from noisewise.report.prior_curves import coefficient_intervals
from noisewise.report.units import Units, figure_text, rounded, with_unit

STEPS = 3
"""Values of a numeric covariate at which the outcome is predicted where nobody says."""


def regression_page(
    posterior: RegressionPosterior,
    prior: Linear,
    releases: Sequence[Release],
    context: Context,
    at: Mapping[str, Any] | None = None,
) -> Page:
    """Coefficients, predictions, residual sd."""
    model, units = posterior.family, context.units
    outcome, unit = model.outcome.name, units.column(model.outcome.name)
    on = ", ".join(one.name for one in model.on)
    page = Page(context.title or f"{outcome}{f' on {on}' if on else ''}: a regression")
    for j, sentence in enumerate(_sentences(posterior, units)):
        page.words(sentence, lead=j == 0)
    before = coefficient_intervals(prior, model)
    if model.on:
        page.figures(
            [
                (
                    plot_coefficients(posterior, units=units, before=before),
                    f"How {outcome} changes with each column, the others held: 90 % intervals "
                    "before the release (as far as the figure reaches) and after it.",
                )
            ]
        )
    page.heading("All numbers")
    page.table([_row(row, posterior, units) for row in posterior.table()])
    for column in model.on:
        levels = getattr(column, "levels", None)
        if levels:
            page.words(f"{column.name} is compared with {levels[0]}.")
    page.heading("What to expect")
    page.table([_prediction(posterior, where, unit) for where in _places(posterior, at)])
    page.words(f"Prior, in coordinates in which all bounds are -1 and 1: {rounded(prior)}.")
    trust(page, posterior.certificate)
    released(page, releases, context)
    source(page, releases, context)
    return page


def _sentences(posterior: RegressionPosterior, units: Units) -> list[str]:
    """What every coefficient says."""
    model = posterior.family
    outcome, unit = model.outcome.name, units.column(model.outcome.name)
    out = []
    for column in model.on:
        for place, name in enumerate(column.names, 1):
            mean = posterior.mean(name)
            low, high = posterior.interval(name, 0.9)
            more = "higher" if mean >= 0 else "lower"
            if isinstance(column, Number):
                step = round_step(column)
                mean, low, high = mean * step, low * step, high * step
                more_of = with_unit(f"{step:g}", units.column(column.name))
                where = f"With {column.name} {more_of} higher"
            else:
                where = f"With {column.name} {column.levels[place]} instead of {column.levels[0]}"
            out.append(
                f"{where}, {outcome} is {with_unit(figure_text(abs(mean)), unit)} {more} on "
                f"average; with a probability of 90 % the change lies between {figure_text(low)} "
                f"and {with_unit(figure_text(high), unit)}."
            )
    sigma = posterior.mean("sigma")
    rest = f"One person's {outcome} differs from that by an sd of "
    return [*out, f"{rest}{with_unit(figure_text(sigma), unit)}."]


def _row(row: Mapping[str, Any], posterior: RegressionPosterior, units: Units) -> dict[str, Any]:
    return {
        "": row["name"],
        "mean": figure_text(row["mean"]),
        "sd": figure_text(row["sd"]),
        "90 % between": f"{figure_text(row['5%'])} and {figure_text(row['95%'])}",
        "probability above 0": "" if row["name"] in ("sigma", "r2") else f"{row['P(> 0)']:.3f}",
    }


def _places(posterior: RegressionPosterior, at: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Where to predict: as asked, or at some values of each column, the others in the middle or at
    their first level.
    """
    if at:
        return [dict(at)]
    usual: dict[str, Any] = {
        one.name: one.bounds.middle if isinstance(one, Number) else one.levels[0]
        for one in posterior.family.on
    }
    places = [usual]
    for one in posterior.family.on:
        values: Sequence[Any]
        if isinstance(one, Number):
            bounds = one.bounds
            values = [float(v) for v in np.linspace(bounds.lower, bounds.upper, STEPS + 2)[1:-1]]
        else:
            values = one.levels
        places += [usual | {one.name: value} for value in values]
    return [place for j, place in enumerate(places) if place not in places[:j]]


def _prediction(
    posterior: RegressionPosterior, where: Mapping[str, Any], unit: str
) -> dict[str, Any]:
    found = posterior.predict(where)
    told = {
        name: figure_text(float(v)) if isinstance(v, (int, float)) else str(v)
        for name, v in where.items()
    }
    mean = f"mean {posterior.family.outcome.name}{f', {unit}' if unit else ''}"
    return told | {
        mean: figure_text(found.mean),
        "90 % between": " and ".join(figure_text(end) for end in found.interval),
        "one person's, 90 % between": " and ".join(figure_text(end) for end in found.person),
    }
