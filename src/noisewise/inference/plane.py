"""Exact likelihood of two noisy sums: the series of `fourier` in two dimensions.

  p(y | theta) = 1/(W1 W2) sum_{k1, k2} phi(w1, w2)^n L1(w1) L2(w2),
phi(w1, w2) = sum_j p_j e^{i w1 t1_j} e^{i w2 t2_j}, a matrix product for all harmonics at once.
Correlated statistics
have a phi that decays along one direction only slowly; so for each w1 the w2 are taken in a band
around where
|phi| peaks, and the number of terms hardly depends on the correlation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisewise.inference import atoms, effort, kernels
from noisewise.inference.fourier import NEAR_LATTICE, Sums, resolved
from noisewise.inference.law import Law
from noisewise.inference.tilt import grown, log_mean_exp, window
from noisewise.model.arrays import FloatArray, IntArray

DIRECT = 2
PIECE = 1 << 11
"""Thetas that are looked at together."""
CHUNK = 256
"""Thetas whose tilt is sought together: what stays in the processor's cache."""
TERMS = 1 << 14
"""Harmonics of all thetas that are summed together."""
OUTSIDE = 20.0
"""The window leaves out e^-20 of each sum on either side."""
TOLERANCE = 3e-4
BEYOND = 1.0
"""Harmonics run at first to so many inverse sds beyond where e^{-x^2/2} is the tolerance."""
GROW = 1.5
MOST = 1 << 14
"""Harmonics of one theta."""
FURTHEST = 1 << 12
LOOSER = 30.0
"""When little work is left, an error this many times the usual one will do; the certificate holds
it.
"""


def log_likelihood(law: Law, sums: Sums, tolerance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log p(y | theta) and its relative numerical error, for a law of two statistics at each theta
    of the batch.
    """
    value, error = np.empty(sums.n.shape), np.zeros(sums.n.shape)
    near = (
        sums.scale < NEAR_LATTICE
        if sums.gaussian and sums.lattice
        else np.zeros(sums.scale.shape, dtype=bool)
    )
    for kinds in ((False, False), (False, True), (True, False), (True, True)):
        alike = np.flatnonzero((sums.n > DIRECT) & (near == kinds).all(axis=1))
        for start in range(0, alike.size, PIECE):
            rows = alike[start : start + PIECE]
            some = (
                law.value[rows],
                law.weight[rows],
                law.atoms,
                sums.take(rows),
                tolerance[rows],
                np.array(kinds),
            )
            value[rows], error[rows] = _piece(*some)
    for row in np.flatnonzero(sums.n <= DIRECT):
        value[row] = _direct(law.value[row], law.weight[row], sums.take(np.array([row])))
    return value, error


def _direct(value: FloatArray, weight: FloatArray, sums: Sums) -> float:
    """One or two records: the noise's density summed over their values. (t1, t2) lies on a curve,
    and phi hardly decays.
    """
    if sums.n[0] == 2:
        value = (value[:, None, :] + value[None, :, :]).reshape(-1, 2)
        weight = (weight[:, None] * weight[None, :]).ravel()
    z = np.abs(sums.y[0] - value) / sums.scale[0]
    log_noise = -(z * z / 2 if sums.gaussian else z).sum(axis=1)
    top = float(log_noise.max())
    return top + float(np.log(np.exp(log_noise - top) @ weight)) + float(sums.log_constant.sum())


def _piece(
    value: FloatArray,
    weight: FloatArray,
    atom_count: int,
    sums: Sums,
    tolerance: FloatArray,
    near: NDArray[np.bool_],
) -> tuple[FloatArray, FloatArray]:
    """`near` says of which statistics the normal noise sees the single lattice points."""
    variance = sums.scale**2 if sums.gaussian else np.zeros(sums.scale.shape)
    limit = np.full(sums.scale.shape, np.inf) if sums.gaussian else (1 - 1e-7) / sums.scale
    log_factor, slope, weight, centred, distance, total_mean = _tilt(
        value, weight, sums.n, sums.y, limit, variance
    )
    log_factor = log_factor + sums.log_constant.sum(axis=1)
    if sums.gaussian:
        log_factor += 0.5 * (variance * slope**2).sum(axis=1)
        # the transform holds the constant
        log_factor += (np.log(sums.scale * np.sqrt(2 * np.pi)) * ~near).sum(axis=1)
        variance = variance * ~near
    sides = [window(centred[:, :, j], weight, sums.n, variance[:, j], OUTSIDE) for j in (0, 1)]
    against = [
        _Kernel.of(j, *sides[j], slope, distance, total_mean, variance, sums, bool(near[j]))
        for j in (0, 1)
    ]
    width = np.stack([kernel.width for kernel in against], axis=1)
    covariance = sums.n[:, None, None] * np.einsum("bm,bmd,bme->bde", weight, centred, centred)
    covariance += np.eye(2) * (variance + 1e-24 * width**2)[:, :, None]
    nodes = weight.shape[1] - atom_count
    if not sums.lattice:
        cap = np.stack(
            [resolved(centred[:, :nodes, j], weight[:, :nodes], width[:, j]) for j in (0, 1)],
            axis=1,
        )
    else:
        cap = np.where(sums.gaussian & ~near, float(FURTHEST), np.floor(width / 2))
    inside = weight[:, :nodes].sum(axis=1)
    few = (
        0 < atom_count < weight.shape[1]
        and not sums.gaussian
        and atoms.few_inside(inside, sums.n, OUTSIDE)
    )
    law = _Law(weight, centred, sums.n, width, covariance, cap, nodes if few else 0)
    total, error = np.full(sums.n.shape, np.nan), np.full(sums.n.shape, np.inf)
    good = np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2)) & np.isfinite(width).all(axis=1))
    if good.size:  # where the law is no number, neither is the likelihood
        parts = [kernel.take(good) for kernel in against]
        rest: FloatArray = np.zeros(good.size)
        if few:
            z, p, q = (
                np.stack([getattr(kernel, name) for kernel in parts], axis=1)
                for name in ("z", "p", "q")
            )
            rest = atoms.contribution(centred[good], weight[good], sums.n[good], z, p, q, nodes)
        total[good], error[good] = _series(law.take(good), parts, tolerance[good], rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_factor + np.log(np.maximum(total, 0.0)), np.where(total > 0, error, np.inf)


@dataclass(frozen=True, slots=True)
class _Law:
    """The tilted law of one record, and of the sums' window."""

    weight: FloatArray  # (batch, m)
    centred: FloatArray  # (batch, m, 2)
    n: FloatArray  # (batch,)
    width: FloatArray  # (batch, 2)
    covariance: FloatArray  # (batch, 2, 2), of the sums
    cap: FloatArray  # (batch, 2): the highest harmonics
    nodes: int
    """Where few records lie inside, the points that do: "at most one inside" is no part of the
    series. Else 0.
    """

    def take(self, rows: IntArray) -> "_Law":
        names = ("weight", "centred", "n", "width", "covariance", "cap")
        weight, centred, n, width, covariance, cap = (getattr(self, name)[rows] for name in names)
        return _Law(weight, centred, n, width, covariance, cap, self.nodes)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The noise of one statistic against harmonics: normal or Laplace, over a window of numbers or
    of whole numbers.
    """

    kind: str
    low: FloatArray
    high: FloatArray
    z: FloatArray
    p: FloatArray  # the rate above; of normal noise on whole numbers the tilt
    q: FloatArray  # the rate below
    spread: FloatArray  # of normal noise the variance; on whole numbers the sd
    offset: FloatArray
    width: FloatArray  # all (batch,)

    @classmethod
    def of(
        cls,
        j: int,
        below: FloatArray,
        above: FloatArray,
        slope: FloatArray,
        distance: FloatArray,
        total_mean: FloatArray,
        variance: FloatArray,
        sums: Sums,
        near: bool,
    ) -> "_Kernel":
        spread, nothing = variance[:, j], np.zeros(sums.n.shape)
        p, q = 1 / sums.scale[:, j] - slope[:, j], 1 / sums.scale[:, j] + slope[:, j]
        if sums.gaussian and not near:
            return cls(
                "normal",
                -below,
                above,
                distance[:, j] - spread * slope[:, j],
                p,
                q,
                spread,
                nothing,
                below + above,
            )
        if sums.lattice:
            origin = np.round(total_mean[:, j])
            offset = total_mean[:, j] - origin
            low, high = np.floor(offset - below) - 1, np.ceil(offset + above) + 1
            # an odd number of whole numbers has no harmonic that is its own mirror image
            high = high + (high - low) % 2
            z, width = sums.y[:, j] - origin, high - low + 1
            if sums.gaussian:
                return cls(
                    "whole_normal", low, high, z, slope[:, j], q, sums.scale[:, j], offset, width
                )
            return cls("whole", low, high, z, p, q, spread, offset, width)
        pad = 0.02 * (below + above)
        return cls(
            "laplace",
            -below - pad,
            above + pad,
            distance[:, j],
            p,
            q,
            spread,
            nothing,
            below + above + 2 * pad,
        )

    def take(self, rows: IntArray) -> "_Kernel":
        names = ("low", "high", "z", "p", "q", "spread", "offset", "width")
        return _Kernel(self.kind, *(getattr(self, name)[rows] for name in names))

    def __call__(self, most: int) -> kernels.ComplexArray:
        """At harmonics 0 to `most`: (batch, most + 1)."""
        w = 2 * np.pi / self.width[:, None] * np.arange(most + 1.0)
        low, high, z, p, q = (
            column[:, None] for column in (self.low, self.high, self.z, self.p, self.q)
        )
        if self.kind == "normal":
            return np.asarray(np.exp(-0.5 * self.spread[:, None] * w**2) * kernels.turn(-w * z))
        if self.kind == "whole_normal":
            columns = (self.low, self.high, self.z, self.spread, self.p)
            return np.asarray(
                kernels.turn(w * self.offset[:, None]) * kernels.gaussian_sum(w, *columns)
            )
        if self.kind == "whole":
            return np.asarray(
                kernels.turn(w * self.offset[:, None]) * kernels.laplace_sum(w, low, high, z, p, q)
            )
        return kernels.laplace_integral(w, low, high, z, p, q)


def _series(
    law: _Law, against: list[_Kernel], tolerance: FloatArray, apart: FloatArray
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


def _sum(law: _Law, rows: int, half: int, against: list[_Kernel]) -> tuple[FloatArray, FloatArray]:
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
    size, phase = kernels.power(less_one, law.n[:, None, None])
    along1, along2 = against[0](rows), against[1](furthest)
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
        left = size * kernels.turn(phase) - atoms.transform(
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


def _less_one(
    first: kernels.ComplexArray, band: kernels.ComplexArray, weight: FloatArray
) -> kernels.ComplexArray:
    """The weighted sum of e^{i(x + y)} - 1 over points, from weight (e^{ix} - 1) and e^{iy} - 1."""
    product = first @ band.transpose(0, 2, 1)
    product += (
        first.sum(axis=2)[:, :, None] + (band @ weight[:, :, None].astype(complex))[:, None, :, 0]
    )
    return np.asarray(product)


def _powers(angle: FloatArray, most: int) -> kernels.ComplexArray:
    """e^{i k angle} - 1 for k from 0 to `most`, with full relative precision: (batch,
    most + 1, m).
    """
    first = kernels.turn_less_one(angle)
    factor = 1 + first
    out = np.empty((angle.shape[0], most + 1, angle.shape[1]), dtype=np.complex128)
    out[:, 0] = 0
    for k in range(most):
        np.multiply(out[:, k], factor, out=out[:, k + 1])
        out[:, k + 1] += first
    return out


def _tilt(
    value: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    y: FloatArray,
    limit: FloatArray,
    variance: FloatArray,
) -> tuple[FloatArray, ...]:
    """As `tilt.tilt`, in two dimensions."""
    mean = np.einsum("bm,bmd->bd", weight, value)
    u = value - mean[:, None, :]
    target = y - n[:, None] * mean
    slope = np.empty(y.shape)
    for start in range(0, n.size, CHUNK):
        rows = slice(start, start + CHUNK)
        slope[rows] = _slope(
            u[rows], weight[rows], n[rows], target[rows], limit[rows], variance[rows]
        )
    log_mean, tilted = log_mean_exp(np.einsum("bmd,bd->bm", u, slope), weight)
    shift = np.einsum("bm,bmd->bd", tilted, u)
    log_factor = n * log_mean - (slope * target).sum(axis=1)
    return (
        log_factor,
        slope,
        tilted,
        u - shift[:, None, :],
        target - n[:, None] * shift,
        n[:, None] * (mean + shift),
    )


def _slope(
    u: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    target: FloatArray,
    limit: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """A damped Newton method within the box |l_j| <= limit_j, to about a tenth of an sd."""
    out, rows = np.zeros(target.shape), np.arange(n.size)
    u1, u2 = np.ascontiguousarray(u[:, :, 0]), np.ascontiguousarray(u[:, :, 1])
    for _ in range(80):
        slope = out[rows]
        tilted = grown(slope[:, :1] * u1 + slope[:, 1:] * u2, weight)[0]
        tilted /= tilted.sum(axis=1, keepdims=True)
        shift = np.stack(
            [np.einsum("bm,bm->b", tilted, u1), np.einsum("bm,bm->b", tilted, u2)], axis=1
        )
        c1, c2 = u1 - shift[:, :1], u2 - shift[:, 1:]
        a, d, b = (
            n[rows] * np.einsum("bm,bm->b", tilted, product)
            for product in (c1 * c1, c2 * c2, c1 * c2)
        )
        a, d = (
            a * (1 + 1e-12) + variance[rows, 0] + 1e-290,
            d * (1 + 1e-12) + variance[rows, 1] + 1e-290,
        )
        miss = target[rows] - n[rows, None] * shift - variance[rows] * slope
        held = (np.abs(slope) >= limit[rows]) & (miss * slope > 0)
        miss, b = np.where(held, 0.0, miss), np.where(held.any(axis=1), 0.0, b)
        determinant = np.maximum(a * d - b * b, 1e-12 * a * d)
        step = (
            np.stack([d * miss[:, 0] - b * miss[:, 1], a * miss[:, 1] - b * miss[:, 0]], axis=1)
            / determinant[:, None]
        )
        going = (step * miss).sum(axis=1) > 0.01
        if not going.any():
            break
        furthest = np.abs(step[:, :1] * u1 + step[:, 1:] * u2).max(axis=1)
        moved = np.clip(
            slope + step / np.maximum(furthest / 2, 1.0)[:, None], -limit[rows], limit[rows]
        )
        out[rows[going]] = moved[going]
        rows, u1, u2, weight = rows[going], u1[going], u2[going], weight[going]
    return out
