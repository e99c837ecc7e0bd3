"""Public limits on a record's value, and the rule for records outside them (paper, section 3.3)."""

import math
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Literal, final

Outside = Literal["redact", "clamp"]
CANDIDATES = 1024
"""Private bounds are chosen among this many evenly spaced public values."""
LARGEST = 1e150
"""Its square is a float still, and so is the square of its reciprocal."""


def _check_interval(lower: float, upper: float, outside: str, parts: int = 1) -> None:
    """Refuse an interval whose `parts` are not each an ordinary interval of 64-bit numbers."""
    if not (isinstance(lower, Real) and isinstance(upper, Real)):
        raise ValueError(
            f"bounds must be two numbers, got {type(lower).__name__} and {type(upper).__name__}."
        )
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError(f"bounds must be finite numbers, got {lower} and {upper}.")
    if not lower < upper:
        raise ValueError(
            f"the lower bound must be below the upper one, got {lower} and {upper}; "
            "swap or widen them."
        )
    largest = max(abs(lower), abs(upper))
    if largest > LARGEST or (upper - lower) / parts < max(1 / LARGEST, largest * 2.0**-40):
        raise ValueError(
            f"bounds {lower} and {upper} are too large, or too close together, for 64-bit numbers; "
            "give the column in other units."
        )
    if outside not in ("redact", "clamp"):
        raise ValueError(
            f"outside must be 'redact' or 'clamp', got {outside!r}; it says what "
            "becomes of a record out of bounds."
        )


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """The interval [lower, upper] of values that count, chosen without looking at the records.

    `redact`: a record outside contributes 0 to every statistic. `clamp`: it contributes as if it
    lay on the nearer bound.
    """

    lower: float
    upper: float
    outside: Outside = field(kw_only=True)

    def __post_init__(self) -> None:
        _check_interval(self.lower, self.upper, self.outside)
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))

    @property
    def middle(self) -> float:
        """Halfway between the two."""
        return (self.lower + self.upper) / 2

    @property
    def radius(self) -> float:
        """Half their distance."""
        return (self.upper - self.lower) / 2


@final
@dataclass(frozen=True, slots=True)
class PrivateBounds:
    """Bounds to be chosen from the records with differential privacy, within the public range
    [lower, upper].

    Each of the two quantiles (Smith 2011) costs half of `epsilon`; the total is charged on top of
    the release's own epsilon.
    """

    lower: float
    upper: float
    epsilon: float | str | Decimal = field(kw_only=True)
    quantiles: tuple[float, float] = field(default=(0.01, 0.99), kw_only=True)
    outside: Outside = field(kw_only=True)

    def __post_init__(self) -> None:
        _check_interval(self.lower, self.upper, self.outside, parts=CANDIDATES)
        low, high = self.quantiles
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"quantiles must be two increasing numbers from 0 to 1, got {self.quantiles}."
            )
        object.__setattr__(self, "quantiles", (float(low), float(high)))
