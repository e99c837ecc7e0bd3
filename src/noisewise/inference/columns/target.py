"""The log density of everything that is not known, given noisy moments, for many groups at once."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from noisewise.inference.columns.cone import Cone
from noisewise.inference.columns.models import Model
from noisewise.mechanism.noise.shape import Shape
from noisewise.model.arrays import FloatArray, IntArray

SIDE = 0.95
"""A start is at most so far out, of what is possible, in means and correlations."""


@dataclass(frozen=True, slots=True)
class Data:
    """The noisy statistics of some groups, of the columns that are asked for, in their order."""

    sums: FloatArray  # (groups, K)
    products: FloatArray  # (groups, pairs)
    pairs: tuple[IntArray, IntArray]
    """j and k of each product."""
    less: FloatArray  # (pairs,): subtracted for every record that counts
    sums_scale: FloatArray  # (groups, K)
    products_scale: FloatArray  # (groups, pairs)
    shape: Shape
    most: FloatArray | None
    """(groups,): N is at most this; N is this where there is no count."""
    count: FloatArray | None = None
    count_scale: FloatArray | None = None
    count_shape: Shape | None = None

    def take(self, groups: IntArray) -> "Data":
        """Those of some of the groups, or of a group several times."""

        def chosen(values: FloatArray | None) -> FloatArray | None:
            return None if values is None else values[groups]

        return Data(
            self.sums[groups],
            self.products[groups],
            self.pairs,
            self.less,
            self.sums_scale[groups],
            self.products_scale[groups],
            self.shape,
            chosen(self.most),
            chosen(self.count),
            chosen(self.count_scale),
            self.count_shape,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """What coordinates stand for."""

    mean: FloatArray
    root: FloatArray
    size: FloatArray
    own: FloatArray


class Target:
    """Coordinates: those of the moments, N's if it is not known, and the model's own."""

    def __init__(self, cone: Cone, model: Model, data: Data) -> None:
        self.cone, self.model, self.data = cone, model, data
        self.unknown = data.count is not None
        self.dimension = cone.dimension + self.unknown + model.own

    def take(self, groups: IntArray) -> "Target":
        """Of some of the groups."""
        return Target(self.cone, self.model, self.data.take(groups))

    def _size(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """N, dN/dx, log dN/dx and its derivative. Every N is as likely as any other."""
        most, least = self.data.most, self.model.least
        if not self.unknown:
            assert most is not None
            nothing = np.zeros(len(x))
            return most, nothing, nothing, nothing
        v = x[:, self.cone.dimension]
        if most is None:
            above = np.exp(v)
            return least + above, above, v, np.ones_like(v)
        s, rest = special.expit(v), special.expit(-v)
        span = most - least
        log = np.log(span) - np.logaddexp(0, -v) - np.logaddexp(0, v)
        return most - span * rest, span * s * rest, log, rest - s

    def at(self, x: FloatArray) -> Point:
        """The moments, N and the model's own coordinates."""
        found = self.cone.at(x[:, : self.cone.dimension])
        return Point(
            found.mean, found.root, self._size(x)[0], x[:, self.dimension - self.model.own :]
        )

    def expected(self, x: FloatArray) -> FloatArray:
        """The statistics without noise, and N where it is not known."""
        point, (j, k) = self.at(x), self.data.pairs
        c = point.root @ point.root.swapaxes(1, 2)
        per_record = c[:, j, k] + point.mean[:, j] * point.mean[:, k] - self.data.less
        n = point.size[:, None]
        return np.concatenate([n * point.mean, n * per_record, *([n] if self.unknown else [])], 1)

    def value(self, x: FloatArray, smooth: bool = False) -> tuple[FloatArray, FloatArray]:
        """The log density and its gradient; `smooth` takes all noise for normal."""
        cone, data, model = self.cone, self.data, self.model
        found = cone.at(x[:, : cone.dimension])
        n, slope_n, log_n, slope_log = self._size(x)
        density = model.density(found.mean, found.root, n, x[:, self.dimension - model.own :])
        mean, root, (j, k) = found.mean, found.root, data.pairs
        c = root @ root.swapaxes(1, 2)
        per_record = c[:, j, k] + mean[:, j] * mean[:, k] - data.less
        log_sums, to_sums = _noise(
            data.shape, data.sums - n[:, None] * mean, data.sums_scale, smooth
        )
        log_products, to_products = _noise(
            data.shape, data.products - n[:, None] * per_record, data.products_scale, smooth
        )
        value = found.value + density.value + log_n + log_sums.sum(axis=1)
        value = value + log_products.sum(axis=1)
        square = np.zeros_like(c)
        square[:, j, k] = n[:, None] * to_products
        square = (square + square.swapaxes(1, 2)) / 2
        to_mean = density.to_mean + n[:, None] * to_sums
        to_mean += 2 * (square @ mean[:, :, None])[:, :, 0]
        to_root = density.to_root + np.tril(2 * square @ root)
        parts = [cone.back(found, to_mean, to_root)]
        if self.unknown:
            assert data.count is not None
            assert data.count_scale is not None
            assert data.count_shape is not None
            log_count, to_count = _noise(data.count_shape, data.count - n, data.count_scale, smooth)
            to_n = density.to_size + to_count + (to_sums * mean).sum(axis=1)
            to_n += (to_products * per_record).sum(axis=1)
            value = value + log_count
            parts.append((to_n * slope_n + slope_log)[:, None])
        return value, np.concatenate([*parts, density.to_own], axis=1)

    def model_gradient(self, x: FloatArray) -> FloatArray:
        """The gradient without the noise: of everything that bends slowly, whatever N."""
        found = self.cone.at(x[:, : self.cone.dimension])
        n, slope_n, _, slope_log = self._size(x)
        density = self.model.density(
            found.mean, found.root, n, x[:, self.dimension - self.model.own :]
        )
        parts = [self.cone.back(found, density.to_mean, density.to_root)]
        if self.unknown:
            parts.append((density.to_size * slope_n + slope_log)[:, None])
        return np.concatenate([*parts, density.to_own], axis=1)

    @property
    def variance(self) -> FloatArray:
        """Of the noise on each statistic, and on the count."""
        data, parts = self.data, [self.data.sums_scale, self.data.products_scale]
        found = [data.shape.variance * scale**2 for scale in parts]
        if data.count_scale is not None and data.count_shape is not None:
            found.append((data.count_shape.variance * data.count_scale**2)[:, None])
        return np.concatenate(found, axis=1)

    def start(self) -> FloatArray:
        """Near the noisy moments, but possible."""
        data, k = self.data, self.cone.numbers
        least = self.model.least
        groups = len(data.sums)
        if data.count is None:
            assert data.most is not None
            n = data.most
        else:
            n = np.maximum(data.count, least + 1.0)
            if data.most is not None:
                n = np.minimum(n, data.most - 1e-3 * (data.most - least))
                n = np.maximum(n, least + 1e-3 * (data.most - least))
        mean = np.clip(data.sums / n[:, None], -SIDE, SIDE)
        factor = np.zeros(k, dtype=bool)
        same = np.eye(k, dtype=bool)
        for block in self.cone.blocks:
            rows = slice(block.start, block.start + block.size)
            if block.factor:
                factor[rows], same[rows, rows] = True, True
                share = np.maximum(mean[:, rows], 0.02 / block.size)
                mean[:, rows] = share / np.maximum(share.sum(axis=1, keepdims=True) / SIDE, 1.0)
        moment = np.zeros((groups, k, k))
        j, other = data.pairs
        moment[:, j, other] = data.products / n[:, None] + data.less
        moment[:, other, j] = moment[:, j, other]
        c = moment - mean[:, :, None] * mean[:, None, :]
        variance = np.einsum("bii->bi", c)
        possible = 1 - mean**2
        variance = np.clip(variance, 0.02 * possible, 0.98 * possible)
        variance = np.where(factor, mean * (1 - mean), variance)
        sd = np.sqrt(variance)
        correlation = np.clip(c / sd[:, :, None] / sd[:, None, :], -SIDE, SIDE)
        known = -mean[:, :, None] * mean[:, None, :] / sd[:, :, None] / sd[:, None, :]
        correlation = np.where(same, known, correlation)
        correlation[:, np.arange(k), np.arange(k)] = 1.0
        # towards independence until it is one
        blocks = np.where(same, correlation, 0.0)
        share = np.ones((groups, 1, 1))
        for _ in range(60):
            mixed = share * correlation + (1 - share) * blocks
            lowest = np.linalg.eigvalsh(mixed)[:, 0]
            floor = np.minimum(1e-4, np.linalg.eigvalsh(blocks)[:, 0] / 2)
            if np.all(lowest >= floor):
                break
            share = np.where((lowest < floor)[:, None, None], 0.8 * share, share)
        x = self.cone.coordinates(mean, mixed * sd[:, :, None] * sd[:, None, :])
        parts = [x]
        if self.unknown:
            v = np.log(n - least)
            if data.most is not None:
                v = v - np.log(data.most - n)
            parts.append(v[:, None])
        return np.concatenate([*parts, self.model.start(self.cone.at(x).root)], axis=1)


def _noise(
    shape: Shape, z: FloatArray, scale: FloatArray, smooth: bool
) -> tuple[FloatArray, FloatArray]:
    """The log density of the noise z, but for a constant, and its slope in the statistic."""
    if smooth:
        precision = 1 / (shape.variance * scale**2)
        return -0.5 * precision * z * z, precision * z
    return shape.log_kernel(z, scale), -shape.slope(z, scale)
