"""Axes that a person can read: plain numbers, never a power of ten in a corner."""

import math
from typing import Any

WORDS = {
    -12: "trillionths",
    -9: "billionths",
    -6: "millionths",
    -3: "thousandths",
    6: "millions",
    9: "billions",
    12: "trillions",
}
"""What an axis counts in where plain numbers would be too long."""
SMALL, LARGE = 1e-3, 1e6
"""Between them numbers are written out."""


def readable(axis: Any, low: float, high: float, label: str, which: str = "x") -> None:
    """Ticks in plain numbers between low and high; where these are tiny or huge, the label says
    what the axis counts in.
    """
    largest = max(abs(low), abs(high))
    power = 0
    if 0 < largest < SMALL or largest >= LARGE:
        wanted = 3 * math.floor(math.log10(largest) / 3 + 1e-9)
        power = min(WORDS, key=lambda known: abs(known - wanted))
    scale = 10.0**-power
    line = axis.xaxis if which == "x" else axis.yaxis
    line.set_major_formatter(lambda value, _: f"{value * scale:.6g}".replace("-", "\N{MINUS SIGN}"))
    said = plain(f"{label}, in {WORDS[power]}" if power else label)
    (axis.set_xlabel if which == "x" else axis.set_ylabel)(said)


def no_density_axis(axis: Any, label: str = "") -> None:
    """A density's height means nothing by itself: no numbers on it."""
    axis.set_yticks([])
    axis.set_ylim(bottom=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    if label:
        axis.set_ylabel(label)


def plain(text: str) -> str:
    """A text that a figure shows as it is: a dollar sign would start a formula."""
    return text.replace("$", r"\$")
