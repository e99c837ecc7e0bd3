"""The noise against one harmonic: the integral or the sum of e^{-i w s} h(z - s) over a window of s, in closed form.

h(z) = e^{-p z} for z > 0 and e^{q z} for z < 0 is Laplace noise under a tilt, without its constant. All arguments
broadcast to (batch, harmonics); s is relative to the window's origin and z is where y lies.
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
        return 0.5 * n * np.log1p(np.maximum(2 * re + re * re + im * im, -1.0)), n * np.arctan2(im, 1 + re)


def laplace_integral(w: FloatArray, low: FloatArray, high: FloatArray, z: FloatArray, p: FloatArray, q: FloatArray) -> ComplexArray:
    """The integral over s from low to high."""
    kink = np.clip(z, low, high)
    return _segment(w, low, kink, p, z) + _segment(w, kink, high, -q, z)


def _segment(w: FloatArray, start: FloatArray, end: FloatArray, rate: FloatArray, anchor: FloatArray) -> ComplexArray:
    """The integral of e^{rate (s - anchor) - i w s} from start to end; the exponent is never positive there."""
    length = end - start
    # e^{c start} (e^{c length} - 1)/c with c = rate - i w, from whichever end is larger.
    rising = rate > 0
    origin = np.where(rising, end, start)
    grow = np.where(rising, -1.0, 1.0)
    a, b = grow * rate * length, -grow * w * length
    ratio = _expm1_ratio(a, b)
    return np.exp(rate * (origin - anchor)) * turn(-w * origin) * (ratio * length)


def _expm1_ratio(a: FloatArray, b: FloatArray) -> ComplexArray:
    """(e^c - 1)/c for c = a + i b, a <= 0; 1 + c/2 near 0."""
    c = a + 1j * b
    near = np.abs(a) + np.abs(b) < 1e-7
    top = np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2 + 1j * np.exp(a) * np.sin(b)
    return np.asarray(np.where(near, 1 + c / 2, top / np.where(near, 1.0, c)))


def laplace_sum(w: FloatArray, low: FloatArray, high: FloatArray, z: FloatArray, p: FloatArray, q: FloatArray) -> ComplexArray:
    """The sum over whole s from low to high."""
    last = np.clip(np.floor(z), low - 1, high)
    return _geometric(w, low, last, p, z) + _geometric(w, last + 1, high, -q, z)


def _geometric(w: FloatArray, start: FloatArray, end: FloatArray, rate: FloatArray, anchor: FloatArray) -> ComplexArray:
    """The sum of e^{rate (s - anchor) - i w s} over whole s from start to end."""
    count = np.maximum(end - start + 1, 0)
    rising = rate > 0
    origin = np.where(rising, end, start)
    grow = np.where(rising, -1.0, 1.0)
    a, b = grow * rate, -grow * w
    # (e^{count c} - 1)/(e^c - 1) as a ratio of (e^x - 1)/x, which is near 1 where both are small.
    ratio = count * _expm1_ratio(count * a, count * b) / _expm1_ratio(a, b)
    first = np.exp(np.where(count > 0, rate * (origin - anchor), -np.inf)) * turn(-w * origin)
    return np.asarray(np.where(count > 0, first * ratio, 0.0))


def gaussian_sum(
    w: FloatArray, low: FloatArray, high: FloatArray, z: FloatArray, sd: FloatArray, slope: FloatArray
) -> ComplexArray:
    """The sum over whole s near z of e^{-i w s} exp(-(z - s)^2 / 2 sd^2 + slope (z - s) - slope^2 sd^2 / 2), sd small.

    low, high, z, sd and slope have shape (batch,).
    """
    peak = z - slope * sd**2
    reach = int(np.ceil(9 * sd.max())) + 1
    s = np.round(peak)[:, None] + np.arange(-reach, reach + 1)  # (batch, terms)
    height = np.exp(-0.5 * ((s - peak[:, None]) / sd[:, None]) ** 2)
    height = np.where((s >= low[:, None]) & (s <= high[:, None]), height, 0.0)
    return np.asarray(np.einsum("bs,bks->bk", height, turn(-w[:, :, None] * s[:, None, :])))
