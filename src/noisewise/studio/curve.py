"""The curve that follows the sliders: widths of few simulated releases, kept once computed.

A finer answer is a job (`tasks.plan`). The same setting always gives the same numbers, so that a
slider that comes back finds the curve as it left it.
"""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.asked.bounds import asked_bounds, asked_truth
from noisewise.asked.columns import asked_family
from noisewise.asked.numbers import number
from noisewise.errors import NoisewiseError
from noisewise.mechanism.meaning import Meaning
from noisewise.studio.plan_form import PlanForm
from noisewise.study.planning.design import Widths
from noisewise.study.planning.one_column import OneColumn, one_column
from noisewise.study.planning.payment import Payment, payment

POINTS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Costs at which the curve is simulated; the slider's own comes with them."""
ROUGH, FINE = 4, 12
"""Releases for each point: as soon as a slider moves, and once it rests. Medians of so few are
known within some 20 and 12 %.
"""
MOST_KEPT = 2000
"""Points that are remembered."""
LEVEL = 0.9
"""Of the intervals."""


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """Widths against the cost, for one n."""

    name: str
    """Whose interval it is."""
    n: int
    epsilon: float
    costs: tuple[float, ...]
    widths: tuple[float, ...]
    public: float
    """The width without noise."""
    meaning: str
    trials: int

    @property
    def rough(self) -> bool:
        """Whether more simulations are worth waiting for."""
        return self.trials < FINE

    @property
    def width(self) -> float:
        return self.widths[self.costs.index(self.epsilon)]


@final
class Curves:
    """Those that were asked for, by what they depend on."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, float], Widths] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, form: PlanForm, trials: int = ROUGH) -> Curve | None:
        """None where the family has several parameters: that takes a job."""
        design, n, chosen = _design(form), form.n, form.epsilon
        if design.slow or design.names[0].endswith("]"):
            return None
        costs = tuple(sorted({*POINTS, chosen}))
        paid = payment(list(costs), None, None)
        found = self._simulated(design, n, costs, trials, paid)
        return Curve(
            design.names[0],
            n,
            chosen,
            costs,
            tuple(float(one.typical()[0]) for one in found),
            float(np.median([one.non_private()[0] for one in found])),
            Meaning(paid.cost(chosen)).sentence,
            trials,
        )

    def _simulated(
        self, design: OneColumn, n: int, costs: Sequence[float], trials: int, paid: Payment
    ) -> list[Widths]:
        """A few at a time, so that a slider that moves meanwhile need not wait for the rest."""
        while True:
            with self._lock:
                held = {e: self._kept.get((design.key, n, e)) for e in costs}
                least = min(_size(one) for one in held.values())
                if least >= trials:
                    return [one for one in held.values() if one is not None]
                fewest = [e for e, one in held.items() if _size(one) == least]
                self._more(design, n, fewest, least, paid)

    def _more(
        self, design: OneColumn, n: int, costs: Sequence[float], done: int, paid: Payment
    ) -> None:
        words = hashlib.sha256(f"{design.key} {n} {list(costs)} {done}".encode()).digest()
        rng = np.random.default_rng(np.frombuffer(words, dtype=np.uint32))
        made = design.simulate_all(n, [paid.cost(e) for e in costs], ROUGH, rng)
        for e, widths in zip(costs, made, strict=True):
            before = self._kept.get((design.key, n, e))
            self._kept[design.key, n, e] = widths if before is None else before.joined(widths)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def _size(widths: Widths | None) -> int:
    return 0 if widths is None else len(widths.private)


def _design(form: PlanForm) -> OneColumn:
    limits = None
    if form.lower or form.upper:
        limits = number(form.lower, "the lower bound"), number(form.upper, "the upper bound")
    family = asked_family(form.model, None, None)
    if not family.complete:
        raise NoisewiseError("several columns are planned with: noisewise plan --moments ...")
    bounds = asked_bounds(limits, (form.outside or None) if limits else None)
    if not form.truth:
        raise NoisewiseError("make a guess of the truth, such as mean=14: what do you expect?")
    truth = asked_truth(form.truth.split())
    return one_column(family, bounds, truth, None, None, LEVEL, "replace_one", 1)


WIDE, HIGH = 640, 320
"""Of the drawing."""
LEFT, RIGHT, TOP, BOTTOM = 62, 20, 18, 54
"""Room around it."""


def drawn(curve: Curve) -> str:
    """An SVG element; colours and fonts come from the page's sheet. It says numbers alone."""
    x0, x1 = math.log(min(curve.costs)), math.log(max(curve.costs))
    every = [width for width in (*curve.widths, curve.public) if math.isfinite(width)]
    low, high = _span(min(every), max(every))

    def x(cost: float) -> float:
        return LEFT + (math.log(cost) - x0) / (x1 - x0) * (WIDE - LEFT - RIGHT)

    def y(width: float) -> float:
        share = (math.log(width) - math.log(low)) / (math.log(high) - math.log(low))
        return HIGH - BOTTOM - share * (HIGH - TOP - BOTTOM)

    known = [p for p in zip(curve.costs, curve.widths, strict=True) if math.isfinite(p[1])]
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in known)
    parts = [
        f'<svg class="curve" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="Width of the '
        f'interval against the privacy cost">'
    ]
    for tick in _ticks(low, high):
        at = f"{y(tick):.1f}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="end" x="{LEFT - 8}" y="{y(tick) + 4:.1f}">{tick:g}</text>')
    for cost in POINTS:
        parts.append(
            f'<text class="mid" x="{x(cost):.1f}" y="{HIGH - BOTTOM + 20}">{cost:g}</text>'
        )
    without = f"{y(curve.public):.1f}"
    parts += [
        f'<text class="mid soft" x="{(LEFT + WIDE - RIGHT) / 2}" y="{HIGH - 6}">privacy cost '
        "\N{GREEK SMALL LETTER EPSILON}, smaller is more private</text>",
        f'<line class="public" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{without}" y2="{without}"/>',
        f'<polyline class="width" points="{line}"/>',
    ]
    if math.isfinite(curve.width):
        here, there = x(curve.epsilon), y(curve.width)
        parts.append(
            f'<line class="drop" x1="{here:.1f}" x2="{here:.1f}" y1="{there:.1f}" '
            f'y2="{HIGH - BOTTOM}"/>'
        )
        parts.append(f'<circle class="point" cx="{here:.1f}" cy="{there:.1f}" r="6"/>')
    return "".join([*parts, "</svg>"])


def _span(least: float, most: float) -> tuple[float, float]:
    """A little room, and never less than a factor of three: a flat curve must look flat."""
    low, high = least / 1.15, most * 1.15
    if high < 3 * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(3), middle * math.sqrt(3)
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten."""
    steps = (1.0, 2.0, 5.0) if high < 300 * low else (1.0,)
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{k * 10.0**d:.3g}") for d in tens for k in steps]
    return [tick for tick in every if low <= tick <= high]
