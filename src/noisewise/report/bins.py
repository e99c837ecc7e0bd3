"""A histogram beside what a model predicts of it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.report.axes import plain
from noisewise.report.plots import COLOURS, figure

if TYPE_CHECKING:
    from noisewise.inference.check import Check


def plot_check(found: "Check", axes: Any = None) -> Any:
    """Bars of the noisy counts, those beyond the predictive's band in another colour; its mean as
    a line over each bin, the band as a box.
    """
    made = None
    if axes is None:
        made, table = figure(1, 1)
        made.set_size_inches(7.2, 4.0)
        axes = table[0, 0]
    edges = np.array(found.bins.edges)
    left, width = edges[:-1], np.diff(edges)
    inside = (found.noisy >= found.low) & (found.noisy <= found.high)
    for which, colour, said in (
        (inside, COLOURS[5], "released, within the band"),
        (~inside, COLOURS[1], "released, outside it"),
    ):
        if which.any():
            axes.bar(
                left[which], found.noisy[which], width[which], align="edge", color=colour,
                alpha=0.65, edgecolor="white", label=said,
            )  # fmt: skip
    axes.bar(
        left, found.high - found.low, width, bottom=found.low, align="edge", color="#444444",
        alpha=0.25, linewidth=0, label="predicted, noise included: 90 %",
    )  # fmt: skip
    axes.hlines(
        found.expected, left, left + width, color="#000000", linewidth=1.4, label="predicted mean"
    )
    axes.axhline(0.0, color="#888888", linewidth=0.8)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_xlabel(plain(found.column))
    axes.set_ylabel("records in the bin")
    kind = found.posterior.family.kind.replace("_", "-")
    axes.set_title(
        plain(f"{found.column} as {kind}: p = {found.p_value:.3g}"),
        fontsize=9,
        loc="left",
        color="#444444",
    )
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return made if made is not None else axes.figure
