"""An interval of numbers in 2^20 steps, by arithmetic that has the same digits in NumPy and in any
database.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisewise.mechanism.steps import RESOLUTION
from noisewise.model.arrays import Namespace

TOP = 1 << (RESOLUTION - 1)
"""The last step, and the first is -TOP: 2^20 of them over the interval."""


@final
@dataclass(frozen=True, slots=True)
class Ruler:
    """k = u 2^19, rounded, of u = (x - centre)/radius: a whole number from -TOP to TOP, whatever x
    is.

    Whole numbers are floats here: below 2^53 these are exact, and a database multiplies, rounds
    and adds them about twice as fast as integers, whose every step it checks for overflow.
    """

    lower: float
    upper: float
    redact: bool

    @property
    def centre(self) -> float:
        return (self.lower + self.upper) / 2

    def rounded(self, x: Any, xp: Namespace = np) -> Any:
        """The nearest step, were there no end to them. It never falls as x rises."""
        radius = (self.upper - self.lower) / 2
        return xp.floor((x - self.centre) * (float(TOP) / radius) + 0.5)

    @property
    def sure(self) -> float:
        """A value that is rounded to at most so many steps from the centre is within the bounds,
        because rounding keeps the order and the bounds themselves are rounded to more.
        """
        if not self.redact:
            return float(TOP)
        low, high = (float(self.rounded(np.float64(x))) for x in (self.lower, self.upper))
        return min(float(TOP), -low - 1, high - 1)

    def point(self, x: Any, rounded: Any, absent: Any, xp: Namespace = np) -> Any:
        """The step of x, given the nearest one; `absent` for a record that is missing, or outside
        under redact. What most records are is asked first, and a database asks the others alone
        for the rest.
        """
        top = float(TOP)
        if self.redact:
            clipped = xp.where(rounded < -top, -top, xp.where(rounded > top, top, rounded))
            within = (x >= self.lower) & (x <= self.upper)
            others = xp.where(within, clipped, absent)
        else:
            # NaN is below nothing in NumPy, and above infinity in a database
            above = xp.where(rounded <= math.inf, top, absent)
            others = xp.where(rounded < 0.0, -top, above)
        return xp.where(xp.abs(rounded) <= self.sure, rounded, others)
