"""Figures of reports: a posterior before its prior, and many intervals on one axis."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.inference.posterior import Posterior
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family
from noisewise.model.priors import Prior
from noisewise.report.axes import no_density_axis, plain, readable
from noisewise.report.plots import COLOURS, figure
from noisewise.report.prior_curves import prior_density, prior_draws

ROW, LEAST, MOST = 0.21, 1.6, 18.0
"""Inches of a named row, and of a figure at least and at most."""
LONGEST = 30
"""Letters of a name that are shown."""
MOST_NAMED = 80
"""Rows with names; of more, every one is a line without its name."""


def plot_against_prior(posterior: Posterior, prior: Prior, name: str, unit: str) -> Any:
    """The density of one number with its 90 % interval, and what was believed before."""
    made, table = figure(1, 1)
    made.set_size_inches(4.6, 3.0)
    axis = table[0, 0]
    at, density = posterior.curve(name)
    low, high = posterior.interval(name, 0.9)
    axis.plot(at, density, color=COLOURS[0], linewidth=1.6, label="after the release")
    within = (at >= low) & (at <= high)
    axis.fill_between(
        at[within], density[within], color=COLOURS[0], alpha=0.2, linewidth=0, label="90 %"
    )
    family = posterior.family
    if isinstance(family, Family):
        draws, line = prior_draws(prior, family, name)
        reach = at[-1] - at[0]
        wide = np.linspace(at[0] - 0.25 * reach, at[-1] + 0.25 * reach, 300)
        wide = wide[(wide > line.lower) & (wide < line.upper)]
        before = prior_density(draws, line, wide)
        axis.plot(wide, before, color="#666666", linestyle="--", linewidth=1.3, label="before")
        at = wide
    readable(axis, float(at[0]), float(at[-1]), name + (f", {unit}" if unit else ""))
    no_density_axis(axis)
    made.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return made


def plot_intervals(
    labels: Sequence[str],
    mean: FloatArray,
    low: FloatArray,
    high: FloatArray,
    label: str,
    before: tuple[FloatArray, FloatArray] | None = None,
    *,
    sort: bool = False,
) -> Any:
    """A mean and a 90 % interval in every row, the prior's interval behind it where given; sorted,
    the largest stands at the top.
    """
    order = np.argsort(-mean, kind="stable") if sort else np.arange(len(labels))
    named = len(labels) <= MOST_NAMED
    made, table = figure(1, 1)
    height = 1.25 + (ROW * len(labels) if named else 9.0)
    made.set_size_inches(4.6 if len(labels) <= 12 else 5.8, float(np.clip(height, LEAST, MOST)))
    axis = table[0, 0]
    y = np.arange(len(order))
    ends = [low, high]
    if before is not None:
        axis.hlines(
            y,
            before[0][order],
            before[1][order],
            color="#888888",
            linewidth=5,
            alpha=0.3,
            label="before the release",
        )
        ends += list(before)
    size, width = (4.5, 1.5) if named else (1.5, 0.6)
    axis.hlines(y, low[order], high[order], color=COLOURS[0], linewidth=width)
    axis.plot(
        mean[order], y, "o", color=COLOURS[0], markersize=size, label="mean and 90 % interval"
    )
    if named:
        axis.set_yticks(y, [short(labels[j]) for j in order], fontsize=9 if y.size <= 40 else 8)
        axis.tick_params(axis="y", length=0)
        if y.size > 12:  # to follow a row to its name
            axis.hlines(y, *axis.get_xlim(), color="#888888", linewidth=0.3, alpha=0.35, zorder=0)
    else:
        axis.set_yticks([])
        axis.set_ylabel(f"{len(labels)} groups, sorted")
    axis.set_ylim(len(order) - 0.4, -0.6)
    axis.spines[["top", "right", "left"]].set_visible(False)
    readable(axis, float(np.min(ends)), float(np.max(ends)), label)
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return made


def short(name: str) -> str:
    """A name that fits beside a figure: its ends tell it from others."""
    return plain(name if len(name) <= LONGEST else f"{name[: LONGEST - 12]}…{name[-11:]}")
