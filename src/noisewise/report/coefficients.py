"""A figure of a regression's coefficients."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.model.columns import Number
from noisewise.report.axes import readable
from noisewise.report.plots import COLOURS, figure
from noisewise.report.posterior_figures import short
from noisewise.report.units import Units, with_unit

if TYPE_CHECKING:
    from noisewise.inference.regress import RegressionPosterior


def round_step(column: Number) -> float:
    """A change of a numeric column that is neither tiny nor all of its range: a power of ten."""
    return float(10.0 ** math.floor(math.log10(column.bounds.radius)))


def plot_coefficients(
    posterior: "RegressionPosterior",
    axes: Any = None,
    units: Units | None = None,
    before: Mapping[str, tuple[float, float]] | None = None,
) -> Any:
    """Each coefficient with its 90 % interval, in the outcome's units: of a number for a round step
    of it, so that all fit one axis; of a level, against the first one. `before` are the prior's
    intervals.
    """
    units = Units() if units is None else units
    model = posterior.family
    rows: list[tuple[str, str, float]] = []
    for column in model.on:
        if isinstance(column, Number):
            step = round_step(column)
            more = with_unit(f"{step:g}", units.column(column.name))
            rows.append((f"{column.name}, for {more} more", column.name, step))
        else:
            first = column.levels[0]
            rows += [
                (f"{column.name}: {level} against {first}", name, 1.0)
                for name, level in zip(column.names, column.levels[1:], strict=True)
            ]
    made = None
    if axes is None:
        made, table = figure(1, 1)
        made.set_size_inches(5.8, 1.5 + 0.36 * max(len(rows), 1))
        axes = table[0, 0]
    axes.axvline(0.0, color="#888888", linewidth=0.8, linestyle="--")
    y = np.arange(len(rows))
    low = high = np.zeros(1)
    if rows:
        steps = np.array([one for _, _, one in rows])
        mean = np.array([posterior.mean(name) for _, name, _ in rows]) * steps
        low, high = np.array([posterior.interval(name, 0.9) for _, name, _ in rows]).T * steps
        if before is not None:
            # what was believed may be far wider: it is shown as far as the figure goes
            room = 0.6 * (max(high.max(), 0) - min(low.min(), 0))
            edges = min(low.min(), 0) - room, max(high.max(), 0) + room
            ends = np.clip(np.array([before[name] for _, name, _ in rows]).T * steps, *edges)
            axes.hlines(
                y, *ends, color="#888888", linewidth=6, alpha=0.3, label="before the release"
            )
            axes.set_xlim(*edges)
        axes.hlines(y, low, high, color=COLOURS[0], linewidth=1.5)
        axes.plot(mean, y, "o", color=COLOURS[0], markersize=5, label="mean and 90 % interval")
    axes.set_yticks(y, [short(label) for label, _, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    unit = units.column(model.outcome.name)
    said = f"change of {model.outcome.name}" + (f", {unit}" if unit else "")
    readable(axes, float(low.min()), float(high.max()), said)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if made is None:
        return axes.figure
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return made
