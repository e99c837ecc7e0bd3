"""A figure of a plan: the width of an interval against the privacy cost, a line for each n."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.report.plots import COLOURS, figure
from noisewise.report.study import MARKS

SYMBOLS = {"epsilon": "ε", "rho": "\N{GREEK SMALL LETTER RHO}"}
"""Of what a release costs."""


def plot_widths(
    rows: Sequence[dict[str, Any]], currency: str, level: float, unit: str = "", axes: Any = None
) -> Any:
    """Of the first quantity of a plan's table; dotted lines are the widths without noise."""
    quantity = rows[0]["quantity"]
    shown = [row for row in rows if row["quantity"] == quantity]
    sizes = list(dict.fromkeys(row["n"] for row in shown))
    made = None
    if axes is None:
        made, table = figure(1, 1)
        made.set_size_inches(5.2, 3.9)
        axes = table[0, 0]
    for nth, n in enumerate(sizes):
        line = sorted((row for row in shown if row["n"] == n), key=lambda row: row[currency])
        colour, mark = COLOURS[nth % len(COLOURS)], MARKS[nth % len(MARKS)]
        at = [row[currency] for row in line]
        axes.errorbar(
            at,
            [row["width"] for row in line],
            yerr=[2 * row["width_mcse"] for row in line],
            color=colour,
            marker=mark,
            markersize=4.5,
            linewidth=1.3,
            capsize=2,
            label=f"n = {n}",
        )
        axes.plot(
            [min(at) / 1.15, max(at) * 1.15],
            [np.median([row["non_private"] for row in line])] * 2,
            color=colour,
            linestyle=":",
            linewidth=1.2,
        )
    axes.plot([], [], color="#666666", linestyle=":", linewidth=1.2, label="without noise")
    axes.set_xscale("log")
    axes.set_yscale("log")
    amounts = sorted({row[currency] for row in shown})
    axes.xaxis.set_ticks(amounts, [f"{amount:g}" for amount in amounts])
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.yaxis.set_major_locator(_few(axes))
    axes.yaxis.set_minor_locator(_few(axes))
    for which in ("set_major_formatter", "set_minor_formatter"):
        getattr(axes.yaxis, which)(lambda value, _: f"{value:.6g}")
    axes.set_xlabel(f"privacy cost {SYMBOLS[currency]} (smaller is more private)")
    axes.set_title(
        f"width of the {level * 100:g} % interval of {quantity}{unit and f', in {unit}'}",
        fontsize=10,
        loc="left",
    )
    axes.spines[["top", "right"]].set_visible(False)
    if made is None:
        axes.legend(frameon=False)
        return axes.figure
    handles, labels = axes.get_legend_handles_labels()
    order = [*range(1, len(labels)), 0]  # lines come before those with error bars
    made.legend(
        [handles[j] for j in order],
        [labels[j] for j in order],
        loc="outside lower center",
        ncols=min(len(labels), 4),
        frameon=False,
        fontsize=8.5,
        handlelength=1.6,
        columnspacing=1.3,
    )
    return made


def _few(axes: Any) -> Any:
    """Ticks at 1, 2 and 5 of each power of ten, or fewer where they would crowd."""
    from matplotlib.ticker import LogLocator

    low, high = axes.dataLim.intervaly
    wide = np.log10(max(high, 1e-300) / max(low, 1e-300)) > 2.5
    return LogLocator(base=10, subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12)
