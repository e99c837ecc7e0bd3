"""Figures of studies, from plain arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noisewise.model.arrays import FloatArray
from noisewise.report.plots import COLOURS

MARKS = ("o", "s", "^", "D", "v", "P", "X")
"""Of lines, told apart without colour."""


def legend_below(figure: Any, axis: Any) -> None:
    """One legend for all axes, outside of them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False
    )


def same_scale(axes: Sequence[Any]) -> None:
    """One scale for panels that are to be compared."""
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)


def against(
    axis: Any,
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """One line for each method over x, with error bars of two standard errors where
    there are any.
    """
    for nth, (label, values) in enumerate(lines.items()):
        colour, mark = COLOURS[nth % len(COLOURS)], MARKS[nth % len(MARKS)]
        bars = None if errors is None else 2 * np.asarray(errors[label])
        axis.errorbar(
            x,
            values,
            yerr=bars,
            color=colour,
            marker=mark,
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=label,
        )
    axis.set_xscale("log")
    sizes = sorted(set(x))
    if len(sizes) <= 6:
        axis.xaxis.set_ticks(sizes, [f"{size:g}" for size in sizes])
        axis.xaxis.set_minor_formatter(lambda *_: "")


def limit_line(axis: Any, limit: float, label: str) -> None:
    """The critical value."""
    axis.axhline(limit, color="#666666", linestyle="--", linewidth=1, label=label)


def ks_scale(axis: Any) -> None:
    """KS statistics of any method on one scale: from a thousandth to 1."""
    axis.set_yscale("log")
    axis.set_ylim(top=1.0)
    axis.set_ylim(bottom=min(axis.get_ylim()[0], 0.01))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def ecdf_difference(axis: Any, samples: Mapping[str, FloatArray], band: float) -> None:
    """The ECDF of each U less the uniform's, and the band that holds all of a calibrated one in 95
    % of studies.
    """
    axis.fill_between(
        [0, 1],
        -band,
        band,
        color="#BBBBBB",
        alpha=0.5,
        linewidth=0,
        label="95 % band of a calibrated method",
    )
    for nth, (label, u) in enumerate(samples.items()):
        at = np.sort(u)
        axis.plot(
            at,
            np.arange(1, at.size + 1) / at.size - at,
            color=COLOURS[nth % len(COLOURS)],
            linewidth=1.2,
            label=label,
        )
    axis.set_xlim(0, 1)
    axis.set_xlabel("U, the posterior probability below the truth")
    axis.set_ylabel("ECDF of U less uniform")


def rank_histogram(axis: Any, counts: Mapping[str, FloatArray], low: float, high: float) -> None:
    """How often U falls in each of equal bins; the band holds all bars of a calibrated method in 95
    % of studies.
    """
    axis.fill_between([0, 1], low, high, color="#BBBBBB", alpha=0.5, linewidth=0)
    for nth, (label, bars) in enumerate(counts.items()):
        axis.stairs(
            bars,
            np.linspace(0, 1, bars.size + 1),
            color=COLOURS[nth % len(COLOURS)],
            linewidth=1.2,
            label=label,
        )
    axis.set_xlim(0, 1)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("U")
    axis.set_ylabel("trials in each bin")
