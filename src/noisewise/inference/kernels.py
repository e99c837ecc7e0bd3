"""The noise against one harmonic: the integral or the sum of e^{-i w s} h(z - s) over a window of
s, in closed form.

h(z) = e^{-p z} for z > 0 and e^{q z} for z < 0 is Laplace noise under a tilt, without its constant.
All arguments broadcast to (batch, harmonics); s is relative to the window's origin and z is where y
lies.
"""

import numpy as np
from numpy.typing import NDArray

from noisewise.model.arrays import FloatArray

ComplexArray = NDArray[np.complex128]


def turn(angle: FloatArray) -> ComplexArray:
    """e^{i angle}; twice as fast as NumPy's complex exponential."""
    out = np.empty(np.shape(angle), dtype=np.complex128)
    np.cos(angle, out=out.real)
    np.sin(angle, out=out.imag)
    return out


def turn_less_one(angle: FloatArray) -> ComplexArray:
    """e^{i angle} - 1 with full relative precision."""
    out = np.empty(np.shape(angle), dtype=np.complex128)
    out.real = -2 * np.sin(angle / 2) ** 2
    np.sin(angle, out=out.imag)
    return out


def power(less_one: ComplexArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log |phi|^n and n arg(phi), from phi - 1."""
    re, im = less_one.real, less_one.imag
    with np.errstate(divide="ignore"):
        return 0.5 * n * np.log1p(np.maximum(2 * re + re * re + im * im, -1.0)), n * np.arctan2(
            im, 1 + re
        )


def laplace_integral(
    w: FloatArray, low: FloatArray, high: FloatArray, z: FloatArray, p: FloatArray, q: FloatArray
) -> ComplexArray:
    """The integral over s from low to high; w is 0 or another harmonic of that window: e^{-i w s}
    is the same at both ends.
    """
    kink = np.clip(z, low, high)
    rise, fall = _height(p * (kink - z), kink > low), _height(q * (z - kink), kink < high)
    left, right = p * (low - kink), q * (kink - high)
    at_kink, at_ends = turn(-w * kink), turn(-w * low)
    with np.errstate(all="ignore"):
        constant = -rise * np.expm1(left) / p - fall * np.expm1(right) / q
        rising = rise / (p - 1j * w) * (at_kink - np.exp(left) * at_ends)
        falling = fall / (q + 1j * w) * (at_kink - np.exp(right) * at_ends)
    return np.asarray(np.where(w == 0, constant, rising + falling))


def laplace_sum(
    w: FloatArray, low: FloatArray, high: FloatArray, z: FloatArray, p: FloatArray, q: FloatArray
) -> ComplexArray:
    """The sum over whole s from low to high; w is 0 or another harmonic of that window of high -
    low + 1.
    """
    last = np.clip(np.floor(z), low - 1, high)  # the last whole number up to z
    rise, fall = _height(p * (last - z), last >= low), _height(q * (z - last - 1), last < high)
    left, right = p * (low - 1 - last), q * (last - high)
    one, at_last, at_ends = turn(-w), turn(-w * last), turn(-w * (low - 1))
    with np.errstate(all="ignore"):
        constant = rise * np.expm1(left) / np.expm1(-p) + fall * np.expm1(right) / np.expm1(-q)
        rising = rise / (1 - np.exp(-p) * one.conj()) * (at_last - np.exp(left) * at_ends)
        falling = fall * one / (1 - np.exp(-q) * one) * (at_last - np.exp(right) * at_ends)
    return np.asarray(np.where(w == 0, constant, rising + falling))


def _height(exponent: FloatArray, there: NDArray[np.bool_]) -> FloatArray:
    """The noise at the inner end of a side of the window that is not empty."""
    return np.exp(np.where(there, exponent, -np.inf))


def gaussian_sum(
    w: FloatArray,
    low: FloatArray,
    high: FloatArray,
    z: FloatArray,
    sd: FloatArray,
    slope: FloatArray,
) -> ComplexArray:
    """The sum over whole s near z of e^{-i w s} exp(-(z - s)^2 / 2 sd^2 + slope (z - s) - slope^2
    sd^2 / 2), sd small.

    low, high, z, sd and slope have shape (batch,).
    """
    peak = z - slope * sd**2
    reach = int(np.ceil(9 * sd.max())) + 1
    s = np.round(peak)[:, None] + np.arange(-reach, reach + 1)  # (batch, terms)
    height = np.exp(-0.5 * ((s - peak[:, None]) / sd[:, None]) ** 2)
    height = np.where((s >= low[:, None]) & (s <= high[:, None]), height, 0.0)
    return np.asarray(np.einsum("bs,bks->bk", height, turn(-w[:, :, None] * s[:, None, :])))


def block_sum(w: FloatArray, slope: FloatArray, block: int) -> ComplexArray:
    """The sum of e^{-(i w + slope) (r - block // 2)} over r from 0 to block - 1: the whole numbers
    of one block, tilted.
    """
    rate = slope + 1j * w
    with np.errstate(all="ignore"):
        ratio = np.where(
            np.abs(rate) > 1e-12,
            np.expm1(-rate * block) / np.where(np.abs(rate) > 1e-12, np.expm1(-rate), 1.0),
            block,
        )
    return np.asarray(np.exp(rate * (block // 2)) * ratio)
