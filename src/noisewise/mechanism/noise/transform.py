"""Noise against one harmonic: the integral or the sum of e^{-i w s} h(y - s) over a window of s.

h is the tilted noise, e^(slope z) times its density, less a constant; s is relative to the tilted
mean of the sum. Every field is (batch,), unless its comment says otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from noisewise.model.arrays import ComplexArray, FloatArray, IntArray, turn

LogKernel = Callable[[FloatArray, FloatArray], FloatArray]
PAD = 0.02
"""The window of a sum of numbers is wider than the sum by this share on either side: the noise's
jump where the window closes stays away from it.
"""
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(12)
_PANELS, _HARMONICS = 64, 120
"""Even panels of a window that is integrated numerically, each of 12 nodes, and the harmonics that
these resolve: 12 radians a panel.
"""
_LADDER = 2.0 ** np.arange(-3, 9)
"""Ends of further panels about the noise's middle, in its scales."""
_AT_ONCE = 1 << 20
"""Whole numbers, of all thetas and harmonics, that are summed together."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One statistic of a batch of tilted sums, as the noise sees it."""

    y: FloatArray
    scale: FloatArray
    slope: FloatArray
    mean: FloatArray
    """Of the tilted sum."""
    distance: FloatArray
    """y less that mean, with the digits that their difference would lose."""
    below: FloatArray
    """How far the sum, with what noise is `in_window`, reaches below its mean,"""
    above: FloatArray
    """and above."""
    on_lattice: bool
    """Whether the sum is of whole numbers, and the noise sees it."""
    block: int
    """To a multiple of which the sum is rounded before the noise is added; 1 if it is not."""

    @property
    def whole(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """The window in blocks of whole numbers: its first and last, their number of whole numbers,
        how far the mean lies from the window's origin, and y from there in blocks.
        """
        origin = np.round(self.mean / self.block) * self.block
        offset, half = self.mean - origin, self.block // 2
        first = np.floor((offset - self.below - 1 + half) / self.block)
        last = np.floor((offset + self.above + 1 + half) / self.block)
        if self.block == 1:
            # an odd number of them has no harmonic that is its own mirror image
            last = last + 1 + (last + 1 - first) % 2
        width = self.block * (last - first + 1)
        return first, last, width, offset, (self.y - origin) / self.block


class Transform(ABC):
    """The noise of one statistic against the harmonics of a window of that width."""

    smooth: ClassVar[bool] = False
    """Whether it falls by itself, so that the window holds the noise too."""
    width: FloatArray

    @property
    def log_factor(self) -> FloatArray | float:
        """The log of what `at` leaves out."""
        return 0.0

    @property
    def most(self) -> float:
        """The highest harmonic that it serves."""
        return np.inf

    @abstractmethod
    def at(self, omega: FloatArray) -> ComplexArray:
        """At the harmonics omega, (batch, k)."""

    def weigh(self, away: FloatArray) -> FloatArray:
        """The tilted noise of a sum that lies `away` from its mean, (batch, ...)."""
        raise NotImplementedError

    def take(self, rows: "IntArray | slice") -> Self:
        """Some of the batch."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: _some(value, rows) for name, value in values.items()})


def _some(value: Any, rows: "IntArray | slice") -> Any:
    return value[rows] if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, slots=True)
class Integral(Transform):
    """Any noise over a window of numbers, by quadrature."""

    width: FloatArray
    point: FloatArray  # (batch, nodes)
    value: FloatArray  # (batch, nodes): the noise times the node's weight
    z: FloatArray
    scale: FloatArray
    slope: FloatArray
    log_kernel: LogKernel

    @classmethod
    def of(cls, seen: Seen, log_kernel: LogKernel) -> "Integral":
        pad = PAD * (seen.below + seen.above)
        low, high = -seen.below - pad, seen.above + pad
        z, scale, width = seen.distance, seen.scale, high - low
        even = low[:, None] + width[:, None] * np.linspace(0, 1, _PANELS + 1)
        about = z[:, None] + scale[:, None] * np.concatenate([-_LADDER[::-1], [0.0], _LADDER])
        ends = np.concatenate([even, about], axis=1)
        ends = np.sort(np.clip(ends, low[:, None], high[:, None]), axis=1)
        half = np.diff(ends)[:, :, None] / 2
        point = (ends[:, :-1, None] + half * (1 + _UNIT)).reshape(len(z), -1)
        made = cls(width, point, point, z, scale, seen.slope, log_kernel)
        weight = (half * _UNIT_WEIGHT).reshape(len(z), -1)
        return cls(width, point, made.weigh(point) * weight, z, scale, seen.slope, log_kernel)

    @property
    def most(self) -> float:
        return _HARMONICS

    def at(self, omega: FloatArray) -> ComplexArray:
        turned = turn(-omega[:, :, None] * self.point[:, None, :])
        return np.asarray(np.einsum("bkm,bm->bk", turned, self.value))

    def weigh(self, away: FloatArray) -> FloatArray:
        return _tilted(away, self.z, self.scale, self.slope, self.log_kernel)


@dataclass(frozen=True, slots=True)
class Sum(Transform):
    """Any noise over a window of whole numbers, one by one."""

    width: FloatArray
    first: FloatArray  # in blocks, as z and scale
    last: FloatArray
    offset: FloatArray
    z: FloatArray
    scale: FloatArray
    slope: FloatArray
    log_kernel: LogKernel
    block: int

    @classmethod
    def of(cls, seen: Seen, log_kernel: LogKernel) -> "Sum":
        first, last, width, offset, z = seen.whole
        scale, block = seen.scale / seen.block, seen.block
        return cls(width, first, last, offset, z, scale, seen.slope, log_kernel, block)

    def at(self, omega: FloatArray) -> ComplexArray:
        most = int((self.last - self.first).max()) + 1
        size = max(1, _AT_ONCE // (most * omega.shape[1]))
        out = np.empty(omega.shape, dtype=np.complex128)
        for start in range(0, len(omega), size):
            rows = slice(start, start + size)
            s = self.first[rows, None] + np.arange(most)
            slope = self.slope[rows] * self.block
            height = _tilted(s, self.z[rows], self.scale[rows], slope, self.log_kernel)
            height = np.where(s <= self.last[rows, None], height, 0.0)
            turned = turn(-omega[rows, :, None] * self.block * s[:, None, :])
            out[rows] = np.einsum("bkm,bm->bk", turned, height)
        return within_blocks(out, omega, self.offset, self.slope, self.block)


def within_blocks(
    against: ComplexArray, omega: FloatArray, offset: FloatArray, slope: FloatArray, block: int
) -> ComplexArray:
    """From a sum over blocks to one over their whole numbers, which the noise does not tell apart,
    relative to the mean.
    """
    against = against * turn(omega * offset[:, None])
    return against if block == 1 else against * block_sum(omega, slope[:, None], block)


def block_sum(omega: FloatArray, slope: FloatArray, block: int) -> ComplexArray:
    """The sum of e^{-(i w + slope) (r - block // 2)} over r from 0 to block - 1: the whole numbers
    of one block, tilted.
    """
    rate = slope + 1j * omega
    small = np.abs(rate) <= 1e-12
    with np.errstate(all="ignore"):
        ratio = np.expm1(-rate * block) / np.where(small, 1.0, np.expm1(-rate))
    return np.asarray(np.exp(rate * (block // 2)) * np.where(small, block, ratio))


def _tilted(
    s: FloatArray, z: FloatArray, scale: FloatArray, slope: FloatArray, log_kernel: LogKernel
) -> FloatArray:
    """e^(slope (z - s)) times the noise at z - s, for s of shape (batch, ...)."""
    z, scale, slope = (column.reshape(-1, *(1,) * (s.ndim - 1)) for column in (z, scale, slope))
    return np.exp(log_kernel(z - s, np.broadcast_to(scale, s.shape)) + slope * (z - s))
