"""A picture of what a privacy cost means: a suspicion before a release, and after it."""

from typing import Any

import numpy as np

from noisewise.mechanism.meaning import EVEN, SELDOM, Meaning, percent
from noisewise.report.plots import COLOURS, figure


def plot_suspicion(meaning: Meaning) -> Any:
    """Where a suspicion of any strength may end; without a release it would stay on the
    diagonal.
    """
    made, table = figure(1, 1)
    made.set_size_inches(4.4, 3.7)
    axis = table[0, 0]
    before = np.linspace(1e-6, 1 - 1e-6, 401)
    low, high = meaning.after(before)
    pure = meaning.cost.currency == "epsilon"
    said = "where it may end" if pure else f"where it ends in {1 - SELDOM:.0%} of releases"
    axis.fill_between(
        before, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label=said.replace("%", " %")
    )
    axis.plot(before, high, color=COLOURS[0], linewidth=1.2)
    axis.plot(before, low, color=COLOURS[0], linewidth=1.2)
    axis.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1, label="no release")
    top = float(meaning.after(np.array([EVEN]))[1][0])
    axis.plot([EVEN, EVEN], [EVEN, top], color=COLOURS[1], linewidth=1.6)
    axis.plot([EVEN], [top], "o", color=COLOURS[1], markersize=5)
    axis.annotate(
        f"50 % → {percent(top)}",
        (EVEN, top),
        xytext=(-6, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
    )
    ticks = [0, 0.25, 0.5, 0.75, 1]
    for line in (axis.xaxis, axis.yaxis):
        line.set_ticks(ticks, [f"{tick:.0%}".replace("%", " %") for tick in ticks])
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.set_xlabel("suspicion before the release")
    axis.set_ylabel("after it")
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return made
