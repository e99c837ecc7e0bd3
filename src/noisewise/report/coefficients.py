"""A figure of a regression's coefficients."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.model.columns import Number
from noisewise.report.plots import COLOURS, figure

if TYPE_CHECKING:
    from noisewise.inference.regress import RegressionPosterior


def plot_coefficients(posterior: "RegressionPosterior", axes: Any = None) -> Any:
    """Each coefficient with its 90 % interval, in the outcome's units: of a number for a round step
    of it, so that all fit one axis; of a level, against the first one.
    """
    model = posterior.family
    rows: list[tuple[str, str, float]] = []
    for column in model.on:
        if isinstance(column, Number):
            step = 10.0 ** math.floor(math.log10(column.bounds.radius))
            rows.append((f"{column.name}, for {step:g} more", column.name, step))
        else:
            first = column.levels[0]
            rows += [
                (f"{column.name}: {level} against {first}", name, 1.0)
                for name, level in zip(column.names, column.levels[1:], strict=True)
            ]
    made = None
    if axes is None:
        made, table = figure(1, 1)
        made.set_size_inches(6.4, 1.3 + 0.42 * max(len(rows), 1))
        axes = table[0, 0]
    axes.axvline(0.0, color="#888888", linewidth=0.8, linestyle="--")
    y = np.arange(len(rows))
    if rows:
        mean = np.array([posterior.mean(name) * step for _, name, step in rows])
        low, high = np.array([posterior.interval(name, 0.9) for _, name, _ in rows]).T * np.array(
            [step for _, _, step in rows]
        )
        axes.errorbar(mean, y, xerr=[mean - low, high - mean], fmt="o", color=COLOURS[0], capsize=3)
    axes.set_yticks(y, [label for label, _, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"change of {model.outcome.name}: mean and 90 % interval")
    axes.spines[["top", "right"]].set_visible(False)
    return made if made is not None else axes.figure
