"""A forest of groups: each with its interval, sorted, beside the population that they come from."""

from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.report.axes import no_density_axis, plain, readable
from noisewise.report.plots import COLOURS, figure

if TYPE_CHECKING:
    from noisewise.inference.pooling.pooled import Pooled

MOST_NAMED = 80
"""Groups whose names are readable; of more, every group is a line without its name."""
ROW, LEAST, MOST = 0.21, 3.2, 17.0
"""Inches of a named group, and of the figure at least and at most."""
LONGEST = 28
"""Letters of a name that are shown."""
SURE = 0.95
"""Groups that differ from the average with this probability have a colour of their own."""


def plot_forest(pooled: "Pooled", axes: Any = None) -> Any:
    """Means and 90 % intervals of all groups, the smallest at the bottom; the population's mean,
    and its own interval as a band.
    """
    count, name = len(pooled), pooled.name
    rows = pooled.figures()
    mean = np.array([row["mean"] for row in rows])
    low, high = (np.array([row[column] for row in rows]) for column in ("5%", "95%"))
    order = np.argsort(mean, kind="stable")
    named = count <= MOST_NAMED
    made = None
    if axes is None:
        made, table = figure(1, 1)
        height = 1.5 + ROW * count if named else MOST / 1.6
        made.set_size_inches(6.4, float(np.clip(height, LEAST, MOST + 1.5)))
        axes = table[0, 0]
    below, above = pooled.population.interval("mean", 0.9)
    centre = pooled.population.mean("mean")
    axes.axvspan(below, above, color="#888888", alpha=0.18, linewidth=0, zorder=0)
    axes.axvline(centre, color="#666666", linewidth=1.0, linestyle="--", zorder=1)
    sure = pooled.above_average
    kinds = [
        (sure >= SURE, COLOURS[1], f"above the average ({SURE * 100:g} % sure)"),
        ((sure > 1 - SURE) & (sure < SURE), COLOURS[0], "not told from the average"),
        (sure <= 1 - SURE, COLOURS[2], f"below the average ({SURE * 100:g} % sure)"),
    ]
    place = np.empty(count)
    place[order] = np.arange(count)
    size, width = (4.2, 1.3) if named else (1.2, 0.5)
    for which, colour, said in kinds:
        if which.any():
            axes.hlines(place[which], low[which], high[which], color=colour, linewidth=width)
            axes.plot(mean[which], place[which], "o", color=colour, markersize=size, label=said)
    if named:
        axes.set_yticks(np.arange(count), [_short(pooled.labels[g]) for g in order])
        axes.tick_params(axis="y", labelsize=9 if count <= 40 else 8, length=0)
        if count > 12:  # to follow a row to its name
            ends = float(low.min()), float(high.max())
            axes.hlines(place, *ends, color="#888888", linewidth=0.3, alpha=0.35, zorder=0)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{count} groups, sorted")
    axes.set_ylim(-0.8, count - 0.2)
    column = pooled.releases[0].column
    what = name if column is None else f"{name} of {column}"
    readable(axes, float(low.min()), float(high.max()), f"{what}: mean and 90 % interval, pooled")
    axes.set_title(
        f"dashed: the population's mean, {centre:.4g} ({below:.4g} to {above:.4g})\n"
        f"spread between groups: {pooled.population.mean('spread'):.4g}",
        fontsize=9,
        loc="left",
        color="#444444",
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    if made is None:
        axes.legend(frameon=False, fontsize=8)
        return axes.figure
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return made


def plot_difference(value: Any, name: str, one: str, other: str) -> Any:
    """The density of a difference with its 90 % interval, and where it is 0."""
    from scipy.stats import gaussian_kde

    made, table = figure(1, 1)
    axes = table[0, 0]
    draws = np.asarray(value.draws)
    low, high = value.interval(0.9)
    at = np.linspace(float(np.quantile(draws, 0.002)), float(np.quantile(draws, 0.998)), 300)
    height = gaussian_kde(draws)(at)
    inside = (at >= low) & (at <= high)
    axes.plot(at, height, color=COLOURS[0])
    axes.fill_between(at[inside], height[inside], color=COLOURS[0], alpha=0.15, linewidth=0)
    axes.axvline(0.0, color="#888888", linewidth=0.9, linestyle="--")
    said = f"{name} of {_short(one)} less that of {_short(other)}"
    readable(axes, float(at[0]), float(at[-1]), said)
    no_density_axis(axes)
    chance = value.probability(above=0)
    axes.set_title(
        f"{value.mean:.4g}, 90 % in {low:.4g} to {high:.4g}; above 0 with probability {chance:.3g}",
        fontsize=9,
        loc="left",
        color="#444444",
    )
    return made


def _short(name: str) -> str:
    return plain(name if len(name) <= LONGEST else f"{name[: LONGEST - 12]}…{name[-11:]}")
