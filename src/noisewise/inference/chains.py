"""Posteriors that are known by the draws of several chains."""

import math
from dataclasses import dataclass

import numpy as np

from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray


@dataclass(frozen=True)
class Chains(Solution):
    """Draws of every parameter, (steps, chains, size) each; those of one place belong together."""

    values: list[FloatArray]

    def _of(self, parameter: int) -> FloatArray:
        values = self.values[parameter]
        return values.reshape(-1, values.shape[2])

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        flat = self._of(parameter)
        return flat.mean(axis=0), flat.std(axis=0)

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(self._of(parameter), q, axis=0))

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        return np.asarray((self._of(parameter) <= x[..., None, :]).mean(axis=-2))

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        total = self.values[0].shape[0] * self.values[0].shape[1]
        if size <= total:
            rows = np.floor(np.arange(size) * total / size).astype(np.int64)
        else:
            rows = rng.integers(total, size=size)
        chosen = [self._of(j)[rows] for j in range(len(self.values))]
        return [values[:, 0] if values.shape[1] == 1 else values for values in chosen]

    def chains(self, rng: np.random.Generator, size: int) -> list[FloatArray] | None:
        chosen = [along(values, size) for values in self.values]
        return [values[:, :, 0] if values.shape[2] == 1 else values for values in chosen]


def along(values: FloatArray, size: int) -> FloatArray:
    """Up to `size` of (steps, chains, k) at even distances, (chains, steps, k): no more chains than
    steps, since diagnostics look along a chain.
    """
    steps, chains = values.shape[:2]
    beside = min(chains, steps, max(1, math.isqrt(size)))
    kept = min(steps, max(1, size // beside))
    rows, columns = np.arange(kept) * steps // kept, np.arange(beside) * chains // beside
    return np.asarray(values[rows][:, columns].swapaxes(0, 1))
