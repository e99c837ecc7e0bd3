"""Exact likelihood of two noisy sums: the series of `fourier` in two dimensions.

  p(y | theta) = 1/(W1 W2) sum_{k1, k2} phi(w1, w2)^n L1(w1) L2(w2),
phi(w1, w2) = sum_j p_j e^{i w1 t1_j} e^{i w2 t2_j}, a matrix product for all harmonics at once. Correlated statistics
have a phi that decays along one direction only slowly; so for each w1 the w2 are taken in a band around where
|phi| peaks, and the number of terms hardly depends on the correlation.
"""

from collections.abc import Callable

import numpy as np

from noisewise.inference import kernels
from noisewise.inference.fourier import Sums
from noisewise.inference.law import Law
from noisewise.inference.tilt import log_mean_exp, window
from noisewise.model.arrays import FloatArray, IntArray

CHUNK = 24
OUTSIDE = 20.0
"""The window leaves out e^-20 of each sum on either side."""
TOLERANCE = 1e-5
REACH = 5.6
"""Harmonics run to this many inverse sds at first: e^{-5.6^2/2} is 2e-7."""
GROW = 1.5
MOST = 1 << 17
"""Harmonics of one theta."""


def log_likelihood(law: Law, sums: Sums) -> tuple[FloatArray, FloatArray]:
    """log p(y | theta) and its relative numerical error, for a law of two statistics at each theta of the batch."""
    value, error = np.empty(sums.n.shape), np.empty(sums.n.shape)
    for start in range(0, sums.n.size, CHUNK):
        rows = slice(start, start + CHUNK)
        value[rows], error[rows] = _chunk(law.value[rows], law.weight[rows], law.atoms, sums.take(rows))
    return value, error


def _chunk(value: FloatArray, weight: FloatArray, atom_count: int, sums: Sums) -> tuple[FloatArray, FloatArray]:
    variance = sums.scale**2 if sums.gaussian else np.zeros(sums.scale.shape)
    limit = np.full(sums.scale.shape, np.inf) if sums.gaussian else (1 - 1e-7) / sums.scale
    log_factor, slope, weight, centred, distance, total_mean = _tilt(value, weight, sums.n, sums.y, limit, variance)
    log_factor = log_factor + sums.log_constant.sum(axis=1)
    if sums.gaussian:
        log_factor += 0.5 * (variance * slope**2).sum(axis=1) + np.log(sums.scale * np.sqrt(2 * np.pi)).sum(axis=1)
    sides = [window(centred[:, :, j], weight, sums.n, variance[:, j], OUTSIDE) for j in (0, 1)]
    against, widths = [], []
    for j, (below, above) in enumerate(sides):
        kernel, width = _kernel(j, below, above, slope, distance, total_mean, variance, sums)
        against.append(kernel)
        widths.append(width)
    width = np.stack(widths, axis=1)
    covariance = sums.n[:, None, None] * np.einsum("bm,bmd,bme->bde", weight, centred, centred)
    covariance += np.eye(2) * (variance + 1e-24 * width**2)[:, :, None]
    nodes = weight.shape[1] - atom_count
    span = np.ptp(centred[:, :nodes], axis=1)
    cap = np.floor(np.maximum(nodes / 2 - 12, 1) / 0.75 * width / (2 * np.pi * span))  # what the nodes resolve
    if sums.lattice:
        cap = np.floor(width / 2)
    total, error = _series(weight, centred, sums.n, width, covariance, against, cap)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_factor + np.log(np.maximum(total, 0.0)), np.where(total > 0, error, np.inf)


def _kernel(
    j: int, below: FloatArray, above: FloatArray, slope: FloatArray, distance: FloatArray, total_mean: FloatArray,
    variance: FloatArray, sums: Sums,
) -> tuple[Callable[[FloatArray], kernels.ComplexArray], FloatArray]:
    """The noise of one statistic against harmonics (batch, k), and the window's width."""
    if sums.gaussian:
        z = (distance[:, j] - variance[:, j] * slope[:, j])[:, None]
        spread = variance[:, j, None]
        return lambda w: np.exp(-0.5 * spread * w**2) * kernels.turn(-w * z), below + above
    p, q = (1 / sums.scale[:, j] - slope[:, j])[:, None], (1 / sums.scale[:, j] + slope[:, j])[:, None]
    if sums.lattice:
        origin = np.round(total_mean[:, j])
        offset = total_mean[:, j] - origin
        low, high = np.floor(offset - below) - 1, np.ceil(offset + above) + 1
        z = (distance[:, j] + offset)[:, None]
        shift = offset[:, None]
        return (
            lambda w: kernels.turn(w * shift) * kernels.laplace_sum(w, low[:, None], high[:, None], z, p, q),
            high - low + 1,
        )
    pad = 0.02 * (below + above)
    low, high = (-below - pad)[:, None], (above + pad)[:, None]
    z = distance[:, j, None]
    return lambda w: kernels.laplace_integral(w, low, high, z, p, q), (high - low)[:, 0]


def _series(
    weight: FloatArray, centred: FloatArray, n: FloatArray, width: FloatArray, covariance: FloatArray,
    against: list[Callable[[FloatArray], kernels.ComplexArray]], cap: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The double sum, with more harmonics until those at its rim no longer count."""
    delta = 2 * np.pi / width
    sd = np.sqrt(np.einsum("bdd->bd", covariance))
    lean = -covariance[:, 0, 1] / covariance[:, 1, 1] * delta[:, 0] / delta[:, 1]  # where |phi| peaks: k2 = lean k1
    given = np.sqrt(np.maximum(1 - (covariance[:, 0, 1] / (sd[:, 0] * sd[:, 1])) ** 2, 1e-6))
    reach = REACH
    while True:
        rows = int(np.ceil((reach / (sd[:, 0] * given * delta[:, 0])).max())) + 1
        half = int(np.ceil((reach / (sd[:, 1] * delta[:, 1])).max())) + 1
        rows, half = int(min(rows, cap[:, 0].max())), int(min(half, cap[:, 1].max()))
        total, rim = _sum(weight, centred, n, delta, lean, rows, half, against, cap)
        total, rim = total / width.prod(axis=1), rim / width.prod(axis=1)
        error = rim / np.maximum(np.abs(total), 1e-300)
        full = rows >= cap[:, 0].max() and half >= cap[:, 1].max()
        if np.all(error < TOLERANCE) or full or GROW**2 * rows * half > MOST:
            return total, error
        reach *= GROW


def _sum(
    weight: FloatArray, centred: FloatArray, n: FloatArray, delta: FloatArray, lean: FloatArray, rows: int, half: int,
    against: list[Callable[[FloatArray], kernels.ComplexArray]], cap: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The sum over |k1| <= rows and |k2 - lean k1| <= half; and the size of what lies at the rim."""
    batch = n.size
    k1 = np.arange(rows + 1)
    middle = np.round(np.clip(lean, -MOST / (rows + 1), MOST / (rows + 1))[:, None] * k1).astype(np.int64)  # (batch, rows + 1)
    furthest = int(np.abs(middle).max()) + half
    first = _powers(delta[:, 0, None] * centred[:, :, 0], rows)  # (batch, rows + 1, m): e^{ikx} - 1
    second = _powers(delta[:, 1, None] * centred[:, :, 1], furthest)
    at = second[np.arange(batch)[:, None], np.abs(middle)]
    at = np.where((middle < 0)[:, :, None], at.conj(), at)
    left = first + at + first * at
    band = np.concatenate([second[:, half:0:-1].conj(), second[:, : half + 1]], axis=1)  # (batch, 2 half + 1, m)
    weighted = left * weight[:, None, :]
    less_one = weighted @ band.transpose(0, 2, 1)
    less_one += weighted.sum(axis=2)[:, :, None] + (band @ weight[:, :, None].astype(complex))[:, None, :, 0]
    k2 = middle[:, :, None] + np.arange(-half, half + 1)  # (batch, rows + 1, 2 half + 1)
    size, phase = kernels.power(less_one, n[:, None, None])
    transform = np.exp(size) * kernels.turn(phase)
    along1 = against[0](delta[:, 0, None] * k1)
    along2 = against[1](delta[:, 1, None] * np.arange(furthest + 1.0))
    noise2 = along2[np.arange(batch)[:, None, None], np.abs(k2)]
    noise2 = np.where(k2 < 0, noise2.conj(), noise2)
    term = transform * along1[:, :, None] * noise2
    counted = (k1[None, :, None] <= cap[:, 0, None, None]) & (np.abs(k2) <= cap[:, 1, None, None])
    term = np.where(counted, term, 0.0)
    twice = np.where(k1 == 0, 1.0, 2.0)[None, :]
    magnitude = np.abs(term)
    total = (twice * term.real.sum(axis=2)).sum(axis=1)
    rim = 2 * magnitude[:, -1].sum(axis=1) * rows / 4 + 2 * (magnitude[:, :, 0] + magnitude[:, :, -1]).sum(axis=1) * half / 4
    return total, rim


def _powers(angle: FloatArray, most: int) -> kernels.ComplexArray:
    """e^{i k angle} - 1 for k from 0 to `most`, with full relative precision: (batch, most + 1, m)."""
    first = kernels.turn_less_one(angle)
    factor = 1 + first
    out = np.empty((angle.shape[0], most + 1, angle.shape[1]), dtype=np.complex128)
    out[:, 0] = 0
    for k in range(most):
        np.multiply(out[:, k], factor, out=out[:, k + 1])
        out[:, k + 1] += first
    return out


def _tilt(
    value: FloatArray, weight: FloatArray, n: FloatArray, y: FloatArray, limit: FloatArray, variance: FloatArray
) -> tuple[FloatArray, ...]:
    """As `tilt.tilt`, in two dimensions: a damped Newton method within the box |l_j| <= limit_j."""
    mean = np.einsum("bm,bmd->bd", weight, value)
    u = value - mean[:, None, :]
    target = y - n[:, None] * mean
    slope = np.zeros(y.shape)
    for _ in range(80):
        _, tilted = log_mean_exp(np.einsum("bmd,bd->bm", u, slope), weight)
        shift = np.einsum("bm,bmd->bd", tilted, u)
        centred = u - shift[:, None, :]
        hessian = n[:, None, None] * np.einsum("bm,bmd,bme->bde", tilted, centred, centred)
        hessian += np.eye(2) * (variance + 1e-12 * np.einsum("bdd->bd", hessian) + 1e-290)[:, :, None]
        miss = target - n[:, None] * shift - variance * slope
        held = (np.abs(slope) >= limit) & (miss * slope > 0)
        hessian = np.where((held[:, :, None] | held[:, None, :]) & ~np.eye(2, dtype=bool), 0.0, hessian)
        miss = np.where(held, 0.0, miss)
        step = np.linalg.solve(hessian, miss[:, :, None])[:, :, 0]
        if np.all((step * miss).sum(axis=1) < 1e-3):
            break
        furthest = np.abs(np.einsum("bmd,bd->bm", u, step)).max(axis=1)
        slope = np.clip(slope + step / np.maximum(furthest / 2, 1.0)[:, None], -limit, limit)
    log_mean, tilted = log_mean_exp(np.einsum("bmd,bd->bm", u, slope), weight)
    shift = np.einsum("bm,bmd->bd", tilted, u)
    log_factor = n * log_mean - (slope * target).sum(axis=1)
    return log_factor, slope, tilted, u - shift[:, None, :], target - n[:, None] * shift, n[:, None] * (mean + shift)
