"""What one category says of its count: weights Gamma(a + s)/s! times noise, and where under a tilt
they lie.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from noisewise.mechanism.noise import Shape
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Prior

CUT = 32.0
"""A count e^-32 as likely as the likeliest is left out."""
LADDER = 40
"""Points from the mode to either end of a window, growing apart: 40 reach from 1 to 10^15."""
STIRLING = 1e5
"""Beyond, differences of log-gammas lose digits that Stirling's series keeps."""


@dataclass(frozen=True, slots=True)
class Factors:
    """f_j of each category, (K,) each; `most` is n where it is public, else infinite."""

    y: FloatArray
    scale: FloatArray
    step: FloatArray  # the released count was rounded to a multiple of it, if above 1
    a: FloatArray
    shape: Shape
    most: float

    def log(self, anchor: FloatArray, away: FloatArray) -> FloatArray:
        """log f_j at the counts anchor + away, (K, M), but for a constant: differences keep their
        digits at any size.
        """
        s = anchor[:, None] + away
        near = np.clip(np.round(self.y), 0.0, self.most)[:, None]
        shift = (anchor[:, None] - near) + away
        step = self.step[:, None]
        if np.any(step > 1):
            shift = np.where(step > 1, step * np.floor(s / step + 0.5) - near, shift)
        miss, scale = self.y[:, None] - near, self.scale[:, None]
        change = self.shape.kernel_change(miss, shift, scale)
        return np.where(
            (s >= 0) & (s <= self.most), log_rising(self.a[:, None], s) + change, -np.inf
        )

    def mode(self, tilt: float) -> FloatArray:
        """About where f_j e^(tilt s) is largest away from 0, a whole number."""
        with np.errstate(all="ignore"):
            found = self.shape.likeliest_count(self.y, self.scale, self.a, tilt)
        found = np.nan_to_num(found, nan=0.0, posinf=1e300, neginf=0.0)
        return np.asarray(np.round(np.clip(found, 0.0, min(self.most, 1e300))), dtype=np.float64)


def log_rising(a: FloatArray, s: FloatArray) -> FloatArray:
    """log of Gamma(a + s)/s!, to an absolute error of 10^-8 or so at any s: by Stirling's series
    where s is large.
    """
    first, second = a + s, np.maximum(s, 0.0) + 1
    few = s < STIRLING
    with np.errstate(all="ignore"):
        small = special.gammaln(first) - special.gammaln(second) if np.any(few) else 0.0
        if np.all(few):
            return np.asarray(small)
        large = (a - 1) * (np.log(second) - 1) + (first - 0.5) * np.log1p((a - 1) / second)
        large = large + (1 / first - 1 / second) / 12
    return np.where(few, small, large)


@dataclass(frozen=True, slots=True)
class Windows:
    """Where the counts lie under a tilt: anchor + [low, high], their means and variances; (K,)
    each, about.
    """

    tilt: float
    anchor: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray  # from the anchor
    variance: FloatArray

    @property
    def sum(self) -> float:
        """The mean of the sum of the counts."""
        return float(self.anchor.sum() + self.mean.sum())

    @property
    def sd(self) -> float:
        """The sd of the sum."""
        return float(np.sqrt(self.variance.sum()))


def look(factors: Factors, tilt: float) -> Windows:
    """Ladders from 0 to anything, and then within what the one before found until that is no longer
    much less.
    """
    anchor = factors.mode(tilt)
    width = np.sqrt(factors.shape.variance) * factors.scale
    curved = np.sqrt(anchor + 1) * np.sqrt((anchor + factors.a) / np.maximum(factors.a - 1, 1e-9))
    fine = np.maximum(np.minimum(width, curved), 1.0) / 4
    low, high = (
        -anchor,
        np.minimum(factors.most - anchor, 1e3 * (factors.scale + anchor + 10 + factors.a)),
    )
    for trial in range(4):
        away = np.round(ladders(anchor, fine, low, high, LADDER))
        value = factors.log(anchor, away) + tilt * away
        top = value.max(axis=1, keepdims=True)
        within = value > top - CUT
        first, last = (
            np.argmax(within, axis=1),
            away.shape[1] - 1 - np.argmax(within[:, ::-1], axis=1),
        )
        rows = np.arange(len(anchor))
        low = away[rows, np.maximum(first - 1, 0)]
        high = away[rows, np.minimum(last + 1, away.shape[1] - 1)]
        if trial > 0 and np.all(16 * (high - low) > np.ptp(away, axis=1)):
            break
    before = np.concatenate([away[:, :1] - 1, away[:, :-1]], axis=1)
    after = np.concatenate([away[:, 1:], away[:, -1:] + 1], axis=1)
    weight = np.exp(value - top) * (after - before)
    weight /= weight.sum(axis=1, keepdims=True)
    mean = (weight * away).sum(axis=1)
    variance = (weight * (away - mean[:, None]) ** 2).sum(axis=1)
    # Whole numbers beside the window: a sum that none of the likeliest counts give must be within
    # reach.
    beside = 2 * np.maximum(factors.step, 1.0)
    low, high = np.maximum(low - beside, -anchor), np.minimum(high + beside, factors.most - anchor)
    return Windows(tilt, anchor, low, high, mean, variance)


def ladders(
    anchor: FloatArray, fine: FloatArray, low: FloatArray, high: FloatArray, size: int
) -> FloatArray:
    """Points that grow apart from the anchor down to low and up to high, and from 0 if low is
    there; sorted, (K, 3 size + 1).
    """
    rung = np.linspace(0.0, 1.0, size)[None, :]

    def climb(reach: FloatArray, first: FloatArray) -> FloatArray:
        reach, first = reach[:, None], first[:, None]
        return np.where(
            reach > 0, first * np.sinh(rung * np.arcsinh(np.maximum(reach, 0.0) / first)), 0.0
        )

    down, up = -climb(-low, fine), climb(high, fine)
    from_zero = low[:, None] + climb(high - low, np.full(low.shape, 4.0))
    from_zero = np.where((low <= -anchor)[:, None], from_zero, 0.0)
    every = np.concatenate([down, up, from_zero, np.zeros((len(low), 1))], axis=1)
    return np.sort(np.clip(every, low[:, None], high[:, None]), axis=1)


def settle(factors: Factors, n: float | None, slope: "LogWeight") -> Windows:
    """The windows under the tilt that puts the mean of the sum within an sd of n; where n is not
    public, near the likeliest.
    """
    if n is None:
        return _settle_total(factors, slope)
    tilt, low, high = 0.0, -math.inf, math.inf
    found = look(factors, tilt)
    for _ in range(100):
        gap, sd = n - found.sum, found.sd
        if abs(gap) <= max(sd, 1e-9 * n) / 2:
            break
        low, high = (tilt, high) if gap > 0 else (low, tilt)
        step = gap / max(sd * sd, 1e-300)
        bound = 4 * max(abs(tilt), 1 / max(sd, 0.1))
        tilt = tilt + min(max(step, -bound), bound)
        if not low < tilt < high:
            tilt = (low + high) / 2
        if tilt in (low, high):
            break
        found = look(factors, tilt)
    return found


def _settle_total(factors: Factors, weight: "LogWeight") -> Windows:
    """The n at which the tilt that its weight asks for gives that n: below it the sum's mean is
    above, and the other way round.
    """
    low, high = 0.0, math.inf
    n = max(float(np.sum(np.maximum(factors.y, 0.0))), 1.0)
    found = look(factors, weight.slope(n))
    for trial in range(200):
        gap = found.sum - n
        if abs(gap) <= found.sd / 20:
            break
        low, high = (low, n) if gap < 0 else (n, high)  # a tilt without a mean is too much, too
        if trial < 8 and low < found.sum < high:
            n = found.sum
        else:
            n = n * n + 4 if math.isinf(high) else math.sqrt(low + 1) * math.sqrt(high + 1) - 1
        if not low < n < high:
            break
        found = look(factors, weight.slope(n))
    return found


@dataclass(frozen=True, slots=True)
class LogWeight:
    """log w(n) = log n!/Gamma(A + n) + log p(n), the weight of a total that is not public."""

    concentration: float
    prior: Prior | None

    def __call__(self, n: FloatArray) -> FloatArray:
        """At totals of any shape."""
        value = -log_rising(np.asarray(self.concentration), n)
        if self.prior is not None:
            with np.errstate(all="ignore"):
                known = self.prior.log_density(np.maximum(n, 1e-300).reshape(-1, 1)).reshape(
                    np.shape(n)
                )
            value = value + np.nan_to_num(known, nan=-np.inf)
        return value

    def slope(self, n: float) -> float:
        """Its derivative."""
        near = max(n * 1e-4, 0.25)
        ends = self(np.array([max(n - near, 0.0), n + near]))
        found = float((ends[1] - ends[0]) / (n + near - max(n - near, 0.0)))
        return found if math.isfinite(found) else 0.0
