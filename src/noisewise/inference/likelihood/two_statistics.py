"""Exact likelihood of two noisy sums: the series of `one_statistic` in two dimensions.

  p(y | theta) = 1/(W1 W2) sum_{k1, k2} phi(w1, w2)^n L1(w1) L2(w2),
phi(w1, w2) = sum_j p_j e^{i w1 t1_j} e^{i w2 t2_j}, a matrix product for all harmonics at once.
Correlated statistics have a phi that decays along one direction only slowly; so for each w1 the w2
are taken in a band around where |phi| peaks, and the number of terms hardly depends on the
correlation.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.inference import effort
from noisewise.inference.likelihood import few_records
from noisewise.inference.likelihood.sums import Sums, Windowed, windowed
from noisewise.inference.likelihood.tilting import power
from noisewise.mechanism.noise.transform import Transform
from noisewise.model.arrays import ComplexArray, FloatArray, IntArray, turn, turn_less_one
from noisewise.model.bounded_statistic import Law

DIRECT = 2
"""So few records are summed over their values: (t1, t2) lies on a curve, and phi hardly decays."""
NEGLIGIBLE, WORK_OF_PAIR = 1e-15, 2.0
"""Values of less weight, beside the heaviest, are left out; the work of two of them, in products of
a weight and a harmonic.
"""
NOBODY = 1e-12
"""Where fewer records than this are expected inside the bounds, all lie on the atoms."""
PIECE = 1 << 11
"""Thetas that are looked at together."""
TERMS = 1 << 14
"""Harmonics of all thetas that are summed together."""
OUTSIDE = 20.0
"""The window leaves out e^-20 of each sum on either side."""
TOLERANCE = 3e-4
"""Of the likelihood, relative: a posterior of two parameters is known to 10^-3 or so."""
BEYOND = 1.0
"""Harmonics run at first to so many inverse sds beyond where e^{-x^2/2} is the tolerance."""
GROW = 1.5
"""How many times as many of them are tried next."""
MOST = 1 << 14
"""Harmonics of one theta."""
FURTHEST = 1 << 12
"""The highest harmonic of one statistic."""
LOOSER = 30.0
"""When little work is left, an error this many times the usual one will do; the certificate holds
it.
"""


def log_likelihood(law: Law, sums: Sums, tolerance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log p(y | theta) and its relative numerical error, for a law of two statistics at each theta
    of the batch.
    """
    value, error = np.empty(sums.n.shape), np.zeros(sums.n.shape)
    nodes = law.weight.shape[1] - law.atoms
    nobody = np.zeros(sums.n.shape, dtype=bool)
    if 0 < nodes < law.weight.shape[1]:  # not where all records are points of a lattice
        nobody = sums.n * law.weight[:, :nodes].sum(axis=1) < NOBODY
    for row in np.flatnonzero(nobody):
        value[row] = _on_atoms(
            law.value[row, None, nodes:], law.weight[row, None, nodes:], sums.take(np.array([row]))
        )
    for on_lattice, alike in sums.alike():
        alike = alike[(sums.n[alike] > DIRECT) & ~nobody[alike]]
        for start in range(0, alike.size, PIECE):
            rows = alike[start : start + PIECE]
            some = windowed(law.take(rows), sums.take(rows), on_lattice, OUTSIDE)
            value[rows], error[rows] = _log_likelihood(some, tolerance[rows])
    for row in np.flatnonzero((sums.n <= DIRECT) & ~nobody):
        value[row] = _direct(law.value[row], law.weight[row], sums.take(np.array([row])))
    return value, error


def _on_atoms(value: FloatArray, weight: FloatArray, sums: Sums) -> float:
    """Nobody inside the bounds: the noise's density at what all records count as."""
    position, mass = few_records.on_atoms(value, weight, sums.n)
    log_noise = sums.shape.log_kernel(sums.y[0] - position[0], sums.scale[0]).sum(axis=1)
    with np.errstate(divide="ignore"):
        found = np.logaddexp.reduce(log_noise + np.log(mass[0]))
    return float(found + sums.log_constant[0])


def _direct(value: FloatArray, weight: FloatArray, sums: Sums) -> float:
    """One or two records: the noise's density summed over their values."""
    carries = weight > NEGLIGIBLE * weight.max()
    first, second = value[carries].T
    weight, (y1, y2), scale = weight[carries], sums.y[0], sums.scale[0]
    if sums.n[0] == 2:
        first, second = first[:, None] + first, second[:, None] + second
    effort.spend(WORK_OF_PAIR * first.size)
    log_noise = sums.shape.log_kernel(y1 - first, scale[0])
    log_noise += sums.shape.log_kernel(y2 - second, scale[1])
    top = float(log_noise.max())
    log_noise -= top
    expected = np.exp(log_noise, out=log_noise) @ weight
    if sums.n[0] == 2:
        expected = expected @ weight
    return top + float(np.log(expected)) + float(sums.log_constant[0])


def _log_likelihood(sums: Windowed, tolerance: FloatArray) -> tuple[FloatArray, FloatArray]:
    width, tilted = sums.width, sums.tilted
    covariance = np.einsum("bm,bmd,bme->bde", tilted.weight, tilted.centred, tilted.centred)
    covariance = sums.n[:, None, None] * covariance
    covariance += np.eye(2) * (sums.in_window + 1e-24 * width**2)[:, :, None]
    total, error = np.full(sums.n.shape, np.nan), np.full(sums.n.shape, np.inf)
    good = np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2)) & np.isfinite(width).all(axis=1))
    if good.size:  # where the law is no number, neither is the likelihood
        some = sums.take(good)
        law = _Law(
            some.tilted.weight,
            some.tilted.centred,
            some.n,
            width[good],
            covariance[good],
            np.minimum(some.most, FURTHEST),
            some.nodes,
        )
        total[good], error[good] = _series(law, some.transforms, tolerance[good], some.apart())
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sums.log_factor + np.log(np.maximum(total, 0.0))
    return value, np.where(total > 0, error, np.inf)


@dataclass(frozen=True, slots=True)
class _Law:
    """The tilted law of one record, and of the sums' window."""

    weight: FloatArray  # (batch, m)
    centred: FloatArray  # (batch, m, 2)
    n: FloatArray  # (batch,)
    width: FloatArray  # (batch, 2)
    covariance: FloatArray  # (batch, 2, 2), of the sums
    cap: FloatArray  # (batch, 2): the highest harmonics
    nodes: int  # as in Windowed

    def take(self, rows: IntArray) -> "_Law":
        names = ("weight", "centred", "n", "width", "covariance", "cap")
        weight, centred, n, width, covariance, cap = (getattr(self, name)[rows] for name in names)
        return _Law(weight, centred, n, width, covariance, cap, self.nodes)


def _series(
    law: _Law, against: list[Transform], tolerance: FloatArray, apart: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The double sum and what is added `apart`, with more harmonics until they change nothing.

    Thetas that need about as many go together.
    """
    delta = 2 * np.pi / law.width
    sd = np.sqrt(np.einsum("bdd->bd", law.covariance))
    given = np.sqrt(np.maximum(1 - (law.covariance[:, 0, 1] / (sd[:, 0] * sd[:, 1])) ** 2, 1e-4))
    need = np.stack([1 / (sd[:, 0] * given * delta[:, 0]), 1 / (sd[:, 1] * delta[:, 1])], axis=1)
    total, error = np.zeros(law.n.shape), np.full(law.n.shape, np.inf)
    todo, reach, first = (
        np.arange(law.n.size),
        np.sqrt(-2 * np.log(np.minimum(tolerance, 0.5))) + BEYOND,
        True,
    )
    while todo.size:
        wanted = np.fmin(
            np.ceil(reach[todo, None] * need[todo]) + 1, np.minimum(law.cap[todo], MOST)
        )
        wanted *= np.minimum(1.0, np.sqrt(MOST / wanted.prod(axis=1)))[:, None]
        wanted = np.maximum(wanted, 1).astype(np.int64)
        order = np.argsort(wanted.prod(axis=1))
        todo, wanted = todo[order], wanted[order]
        before = total[todo].copy()
        start = 0
        while start < todo.size:
            alike = (
                int(
                    np.searchsorted(
                        wanted[:, 0] * wanted[:, 1], 2 * wanted[start].prod(), side="right"
                    )
                )
                - start
            )
            size = max(1, min(alike, TERMS // int((wanted[start] + 1).prod() * 2 + 1)))
            rows = slice(start, start + size)
            most = wanted[rows].max(axis=0)
            some = law.take(todo[rows])
            made, rim = _sum(
                some, int(most[0]), int(most[1]), [kernel.take(todo[rows]) for kernel in against]
            )
            area = some.width.prod(axis=1)
            found = made / area + apart[todo[rows]]
            total[todo[rows]], error[todo[rows]] = (
                found,
                rim / area / np.maximum(np.abs(found), 1e-300),
            )
            start += size
        if not first:
            error[todo] = np.minimum(
                error[todo], np.abs(total[todo] - before) / np.maximum(np.abs(total[todo]), 1e-300)
            )
        full = (wanted >= law.cap[todo]).any(axis=1) | (GROW**2 * wanted.prod(axis=1) > MOST // 2)
        enough = tolerance[todo] * (LOOSER if effort.worn_out() else 1.0)
        todo = todo[(error[todo] > enough) & ~full]
        reach, first = reach * GROW, False
    return total, error


def _sum(
    law: _Law, rows: int, half: int, against: list[Transform]
) -> tuple[FloatArray, FloatArray]:
    """The sum over |k1| <= rows and |k2 - lean k1| <= half; and the size of what lies
    at the rim.
    """
    batch = law.n.size
    delta = 2 * np.pi / law.width
    # |phi| peaks at k2 = lean k1
    lean = -law.covariance[:, 0, 1] / law.covariance[:, 1, 1] * delta[:, 0] / delta[:, 1]
    k1 = np.arange(rows + 1)
    limit = FURTHEST / (rows + 1)
    # (batch, rows + 1)
    middle = np.round(np.clip(lean, -limit, limit)[:, None] * k1).astype(np.int64)
    furthest = int(np.abs(middle).max()) + half
    effort.spend(2.0 * batch * law.weight.shape[1] * (furthest + rows + rows * half / 2))
    # (batch, rows + 1, m): e^{ikx} - 1
    first = _powers(delta[:, 0, None] * law.centred[:, :, 0], rows)
    second = _powers(delta[:, 1, None] * law.centred[:, :, 1], furthest)
    if middle.any():
        at = second[np.arange(batch)[:, None], np.abs(middle)]
        at = np.where((middle < 0)[:, :, None], at.conj(), at)
        first = first + at + first * at
    first *= law.weight[:, None, :]
    # (batch, 2 half + 1, m)
    band = np.concatenate([second[:, half:0:-1].conj(), second[:, : half + 1]], axis=1)
    less_one = _less_one(first, band, law.weight)
    k2 = middle[:, :, None] + np.arange(-half, half + 1)  # (batch, rows + 1, 2 half + 1)
    size, phase = power(less_one, law.n[:, None, None])
    along1, along2 = (
        noise.at(delta[:, j, None] * np.arange(most + 1.0))
        for j, (noise, most) in enumerate(zip(against, (rows, furthest), strict=True))
    )
    noise2 = along2[np.arange(batch)[:, None, None], np.abs(k2)]
    np.conjugate(noise2, out=noise2, where=k2 < 0)
    noise2 *= along1[:, :, None]
    size = np.exp(size)
    beyond = (k1[None, :, None] > law.cap[:, 0, None, None]) | (
        np.abs(k2) > law.cap[:, 1, None, None]
    )
    if law.nodes:
        part = slice(law.nodes)
        of_nodes = _less_one(first[:, :, part], band[:, :, part], law.weight[:, part])
        inside = law.weight[:, part].sum(axis=1)[:, None, None]
        left = size * turn(phase) - few_records.transform(
            less_one, of_nodes, inside, law.n[:, None, None]
        )
        size, real = np.abs(left), (left * noise2).real
    else:
        real = size * (np.cos(phase) * noise2.real - np.sin(phase) * noise2.imag)
    size[beyond] = real[beyond] = 0.0
    twice = np.where(k1 == 0, 1.0, 2.0)
    total = real.sum(axis=2) @ twice
    top = np.abs(noise2[:, -1]) * size[:, -1]
    sides = [np.abs(noise2[:, :, j]) * size[:, :, j] for j in (0, -1)]
    return total, 2 * (top.sum(axis=1) + (sides[0] + sides[1]).sum(axis=1))


def _less_one(first: ComplexArray, band: ComplexArray, weight: FloatArray) -> ComplexArray:
    """The weighted sum of e^{i(x + y)} - 1 over points, from weight (e^{ix} - 1) and e^{iy} - 1."""
    product = first @ band.transpose(0, 2, 1)
    product += (
        first.sum(axis=2)[:, :, None] + (band @ weight[:, :, None].astype(complex))[:, None, :, 0]
    )
    return np.asarray(product)


def _powers(angle: FloatArray, most: int) -> ComplexArray:
    """e^{i k angle} - 1 for k from 0 to `most`, with full relative precision: (batch,
    most + 1, m).
    """
    first = turn_less_one(angle)
    factor = 1 + first
    out = np.empty((angle.shape[0], most + 1, angle.shape[1]), dtype=np.complex128)
    out[:, 0] = 0
    for k in range(most):
        np.multiply(out[:, k], factor, out=out[:, k + 1])
        out[:, k + 1] += first
    return out
