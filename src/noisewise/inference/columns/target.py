"""The log density of everything that is not known, given noisy moments, for many groups at once.

Noise is a normal whose variance may itself be random (Laplace noise: exponential). Given these
variances everything is smooth, and they are drawn anew before every move.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from noisewise.inference.columns import matrices
from noisewise.inference.columns.cone import Cone
from noisewise.inference.columns.matrices import times
from noisewise.inference.columns.model import Model
from noisewise.mechanism.noise.shape import Shape
from noisewise.model.arrays import FloatArray, IntArray

SIDE = 0.95
"""A start is at most so far out, of what is possible, in means and correlations."""
SHARP = 1e-3
"""Noise on a mean square, of 1, above which it is not seen which column determines which."""
STEEPEST = 100.0
"""A column that would lean more than so many times the width of another stands by itself."""
NARROWEST = 1e-12
"""Of the variance of Laplace noise, relative to its scale squared: below it, rounding decides."""


@dataclass(frozen=True, slots=True)
class Data:
    """The noisy statistics of some groups, of the columns that are asked for, in their order; a
    group's records are in one part, or in several that were released apart.
    """

    y: FloatArray  # (groups, parts, statistics): sums, products, and the count if there is one
    scale: FloatArray  # (groups, parts, statistics)
    pairs: tuple[IntArray, IntArray]
    """j and k of each product."""
    less: FloatArray  # (pairs,): subtracted for every record that counts
    shapes: Sequence[Shape]
    """Of the noise of each part."""
    count_shapes: Sequence[Shape] | None
    """Of the noise of each part's count; None where N is public."""
    most: FloatArray | None
    """(groups, parts): N is at most this; N is this where there is no count."""

    def take(self, groups: IntArray) -> "Data":
        """Those of some of the groups, or of a group several times."""
        most = None if self.most is None else self.most[groups]
        y, scale = (np.asfortranarray(one[groups]) for one in (self.y, self.scale))
        return replace(self, y=y, scale=scale, most=most)

    @staticmethod
    def join(pieces: "Sequence[Data]") -> "Data":
        """Of all their groups, which are alike."""
        most = [one.most for one in pieces if one.most is not None]
        return replace(
            pieces[0],
            y=np.concatenate([one.y for one in pieces]),
            scale=np.concatenate([one.scale for one in pieces]),
            most=np.concatenate(most) if most else None,
        )

    @property
    def variance(self) -> FloatArray:
        """Of the noise on each statistic, and on the count."""
        out = self.scale**2
        for part, shape in enumerate(self.shapes):
            end = out.shape[2] - (self.count_shapes is not None)
            out[:, part, :end] *= shape.variance
            if self.count_shapes is not None:
                out[:, part, end] *= self.count_shapes[part].variance
        return out

    def moments(self, n: FloatArray, cone: Cone) -> tuple[FloatArray, FloatArray]:
        """Means and second moments of a record, with their noise, (groups x parts, ...), if there
        are n, (groups, parts); a record has one level of each factor.
        """
        q, size, (j, k) = cone.numbers, n.reshape(-1, 1), self.pairs
        y = self.y.reshape(len(size), -1)
        mean, moment = y[:, :q] / size, np.zeros((len(y), q, q))
        moment[:, j, k] = y[:, q : q + len(j)] / size + self.less
        moment[:, k, j] = moment[:, j, k]
        for block in cone.factors:
            rows = slice(block.start, block.start + block.size)
            moment[:, rows, rows] = mean[:, rows, None] * np.eye(block.size)
        return mean, moment

    def mixing_variance(
        self, noise: FloatArray, normal: FloatArray, uniform: FloatArray
    ) -> FloatArray:
        """A draw of the normal's variance given the noise, (batch, parts, statistics) each."""
        out = np.empty_like(noise)
        for part, shape in enumerate(self.shapes):
            end = noise.shape[2] - (self.count_shapes is not None)
            pieces = [(slice(0, end), shape)]
            if self.count_shapes is not None:
                pieces.append((slice(end, None), self.count_shapes[part]))
            for which, own in pieces:
                scale = self.scale[:, part, which]
                given = (one[:, part, which] for one in (noise, normal, uniform))
                z, *random = given
                drawn = own.mixing_variance(z, scale, *random)
                out[:, part, which] = np.maximum(drawn, NARROWEST * scale**2)
        return out


@dataclass(frozen=True, slots=True)
class Point:
    """What coordinates stand for: the moments and sizes of each part."""

    mean: FloatArray  # (batch, parts, K)
    root: FloatArray  # (batch, parts, K, K)
    size: FloatArray  # (batch, parts)
    own: FloatArray  # (batch, own)

    def pooled(self) -> tuple[FloatArray, FloatArray]:
        """Means and covariance over all parts, (batch, K) and (batch, K, K)."""
        weight = (self.size / self.size.sum(axis=1, keepdims=True))[:, :, None]
        middle = (weight * self.mean).sum(axis=1)
        away = (self.mean - middle[:, None])[:, :, :, None]
        within = self.root @ self.root.swapaxes(2, 3)
        between = away @ away.swapaxes(2, 3)
        return middle, (weight[:, :, :, None] * (within + between)).sum(axis=1)


class Target:
    """Coordinates: of each part those of the moments and N's if it is not known; then the model's
    own.
    """

    def __init__(
        self, cone: Cone, model: Model, data: Data, lean: FloatArray | None = None
    ) -> None:
        """`lean` is L of the cone's coordinates, (groups, parts, K, K), where it is known."""
        self.cone, self.model, self.data = cone, model, data
        self.unknown = data.count_shapes is not None
        self.parts = data.y.shape[1]
        self.each = cone.dimension + self.unknown
        self.dimension = self.parts * self.each + model.own
        self._few = 1 / self._guess()
        q = cone.numbers
        known = self._leaning() if lean is None else lean
        self._lean = known.reshape(-1, q, q)
        self._leans = self._lean if (self._lean != np.eye(q)).any() else None

    def take(self, groups: IntArray) -> "Target":
        """Of some of the groups."""
        lean = self._lean.reshape(*self.data.y.shape[:2], *self._lean.shape[1:])
        return Target(self.cone, self.model, self.data.take(groups), lean[groups])

    def _guess(self) -> FloatArray:
        """About N, and possible, (groups, parts)."""
        data, least = self.data, self.model.least
        if not self.unknown:
            assert data.most is not None
            return data.most
        n = np.maximum(data.y[:, :, -1], least + 1.0)
        if data.most is None:
            return n
        margin = 1e-3 * (data.most - least)
        return np.clip(n, least + margin, data.most - margin)

    def _size(self, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """N, dN/dx, log dN/dx and its derivative, from what is left of a part's coordinates, (batch
        x parts, 0 or 1). Every N is as likely as any other.
        """
        most, least = self.data.most, self.model.least
        if not self.unknown:
            assert most is not None
            nothing = np.zeros(len(v))
            return most.reshape(-1), nothing, nothing, nothing
        v = v[:, 0]
        if most is None:
            above = np.exp(v)
            return least + above, above, v, np.ones_like(v)
        s, rest = special.expit(v), special.expit(-v)
        span = most.reshape(-1) - least
        log = np.log(span) - np.logaddexp(0, -v) - np.logaddexp(0, v)
        size = np.where(v < 0, least + span * s, most.reshape(-1) - span * rest)  # all digits
        return size, span * s * rest, log, rest - s

    def _split(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The coordinates of the parts, one after the other, and the model's own."""
        end = self.parts * self.each
        x = np.asarray(x, order=matrices.order(self.cone.numbers))
        return x[:, :end].reshape(-1, self.each), x[:, end:]

    def at(self, x: FloatArray) -> Point:
        """The moments, N and the model's own coordinates."""
        own, last = self._split(x)
        c, k, shape = self.cone.dimension, self.cone.numbers, (len(x), self.parts)
        found = self.cone.at(own[:, :c], self._few.reshape(-1), self._leans)
        return Point(
            found.mean.reshape(*shape, k),
            found.root.reshape(*shape, k, k),
            self._size(own[:, c:])[0].reshape(shape),
            last,
        )

    def expected(self, x: FloatArray) -> FloatArray:
        """The statistics without noise, and N where it is not known: (batch, parts, ...)."""
        point, (j, k) = self.at(x), self.data.pairs
        c = times(point.root, point.root.swapaxes(2, 3))
        per_record = c[:, :, j, k] + point.mean[:, :, j] * point.mean[:, :, k] - self.data.less
        n = point.size[:, :, None]
        return np.concatenate([n * point.mean, n * per_record, *([n] if self.unknown else [])], 2)

    def value(self, x: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The log density and its gradient, the noise being normal with these precisions, (batch,
        parts, statistics).
        """
        return self._value(x, precision)

    def model_gradient(self, x: FloatArray) -> FloatArray:
        """The gradient without the noise: of everything that bends slowly, whatever N."""
        return self._value(x, None)[1]

    def _value(self, x: FloatArray, precision: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        cone, data, model, c = self.cone, self.data, self.model, self.cone.dimension
        (own, last), shape, q = self._split(x), (len(x), self.parts), cone.numbers
        found = cone.at(own[:, :c], self._few.reshape(-1), self._leans)
        n, slope_n, log_n, slope_log = self._size(own[:, c:])
        mean, root = found.mean, found.root
        density = model.density(
            mean.reshape(*shape, q), root.reshape(*shape, q, q), n.reshape(shape), last
        )
        value = density.value + (found.value + log_n).reshape(shape).sum(axis=1)
        to_mean, to_root = density.to_mean.reshape(-1, q), density.to_root.reshape(-1, q, q)
        to_n = density.to_size.reshape(-1)
        if precision is not None:
            j, k = data.pairs
            square = times(root, root.swapaxes(1, 2))
            per_record = square[:, j, k] + mean[:, j] * mean[:, k] - data.less
            whole = np.concatenate([mean, per_record], axis=1)
            y, weight = (one.reshape(-1, one.shape[2]) for one in (data.y, precision))
            s = whole.shape[1]
            miss = y[:, :s] - n[:, None] * whole
            pull = weight[:, :s] * miss
            log_noise = np.einsum("bi,bi->b", pull, miss)
            to_square = np.zeros_like(square)
            to_square[:, j, k] = n[:, None] * pull[:, q:]
            to_square = to_square + to_square.swapaxes(1, 2)  # twice the gradient in C
            to_mean = to_mean + n[:, None] * pull[:, :q] + matrices.times_vector(to_square, mean)
            to_root = to_root + times(to_square, root)
            if self.unknown:
                away = y[:, s] - n
                log_noise = log_noise + weight[:, s] * away**2
                to_n = to_n + weight[:, s] * away + np.einsum("bi,bi->b", pull, whole)
            value = value - 0.5 * log_noise.reshape(shape).sum(axis=1)
        parts = [cone.back(found, to_mean, to_root)]
        if self.unknown:
            parts.append((to_n * slope_n + slope_log)[:, None])
        gradient = np.concatenate(parts, axis=1).reshape(len(x), -1)
        return value, np.concatenate([gradient, density.to_own], axis=1)

    def _leaning(self) -> FloatArray:
        """L of the cone's coordinates, (groups x parts, K, K): covariates that others nearly
        determine, as far as the noise lets that be seen, lean on them.
        """
        mean, moment = (np.clip(one, -1, 1) for one in self.data.moments(self._guess(), self.cone))
        c = moment - mean[:, :, None] * mean[:, None, :]
        n = self._guess().reshape(-1)
        noise = np.sqrt(np.median(self.data.variance.reshape(len(n), -1), axis=1)) / n
        blur = 3 * noise[:, None]
        way = np.zeros_like(c)
        for block in self.cone.blocks:
            s = block.start
            if block.factor or block.response or s == 0:
                continue
            values, vectors = np.linalg.eigh(c[:, :s, :s])
            along = (vectors.swapaxes(1, 2) @ c[:, :s, s, None])[:, :, 0]
            shrunk = along / (np.maximum(values, 0.0) + blur)
            left = c[:, s, s] - (shrunk * along).sum(axis=1)
            slopes = (vectors @ shrunk[:, :, None])[:, :, 0]
            # moments that no records have say nothing of that
            steep = (slopes**2).sum(axis=1)
            possible = (left > -5 * noise * (1 + steep)) & (steep < STEEPEST**2)
            leans = (left < np.sqrt(noise)) & (noise < SHARP) & possible
            way[:, s, :s] = np.where(leans[:, None], slopes, 0.0)
        return matrices.lower_inverse(np.eye(c.shape[1]) - way)

    def start(self) -> FloatArray:
        """Near the noisy moments, but possible."""
        data, q = self.data, self.cone.numbers
        groups = len(data.y)
        few, n = self._few.reshape(-1), self._guess().reshape(-1)
        mean, moment = data.moments(self._guess(), self.cone)
        mean = np.clip(mean, -SIDE, SIDE)
        factor, same = np.zeros(q, dtype=bool), np.eye(q, dtype=bool)
        for block in self.cone.factors:
            rows = slice(block.start, block.start + block.size)
            factor[rows], same[rows, rows] = True, True
            share = np.maximum(mean[:, rows], 0.02 / block.size)
            mean[:, rows] = share / np.maximum(share.sum(axis=1, keepdims=True) / SIDE, 1.0)
        covariance = _possible(mean, moment - mean[:, :, None] * mean[:, None, :], factor, same)
        x = self.cone.coordinates(mean, covariance, few, self._lean)
        if self.unknown:
            least = self.model.least
            v = np.log(n - least)
            if data.most is not None:
                v = v - np.log(data.most.reshape(-1) - n)
            x = np.concatenate([x, v[:, None]], axis=1)
        return np.concatenate([x.reshape(groups, -1), np.zeros((groups, self.model.own))], axis=1)


def _possible(mean: FloatArray, c: FloatArray, factor: FloatArray, same: FloatArray) -> FloatArray:
    """A covariance near c that records within the box can have; `same` marks pairs of one factor's
    numbers, whose covariance is known from the means.
    """
    possible = 1 - mean**2
    variance = np.clip(np.einsum("bii->bi", c), 0.02 * possible, 0.98 * possible)
    variance = np.where(factor, mean * (1 - mean), variance)
    sd = np.sqrt(variance)
    correlation = np.clip(c / sd[:, :, None] / sd[:, None, :], -SIDE, SIDE)
    known = -mean[:, :, None] * mean[:, None, :] / sd[:, :, None] / sd[:, None, :]
    correlation = np.where(same, known, correlation)
    k = np.arange(len(factor))
    correlation[:, k, k] = 1.0
    # towards independence until it is one
    blocks = np.where(same, correlation, 0.0)
    floor = np.minimum(1e-4, np.linalg.eigvalsh(blocks)[:, 0] / 2)
    share = np.ones((len(mean), 1, 1))
    for _ in range(60):
        mixed = share * correlation + (1 - share) * blocks
        short = np.linalg.eigvalsh(mixed)[:, 0] < floor
        if not short.any():
            break
        share = np.where(short[:, None, None], 0.8 * share, share)
    return np.asarray(mixed * sd[:, :, None] * sd[:, None, :])
