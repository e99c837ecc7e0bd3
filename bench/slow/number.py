"""What is known of the number of records, and what that makes of the transform of one record."""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slow.noise import Noise
from slow.types import Array, Problem


class Count:
    """What is known of n: a number, or weights of n = 0, 1, 2, ... from a noisy count."""

    def __init__(self, problem: Problem) -> None:
        self.n = problem["n"]
        self.most_tilt = np.inf
        if self.n is not None:
            self.low = self.high = self.middle = int(self.n)
            return
        self.value = problem["count"]["value"]
        self.noise = Noise.of(problem["count"]["noise"])
        reach = (9 if self.noise.gaussian else 34) * self.noise.scale
        self.low, self.high = (
            max(0, int(self.value - reach)),
            max(int(self.value + reach) + 2, int(reach) + 2),
        )
        self.middle = max(0, int(np.floor(self.value)))
        self.explicit = self.noise.gaussian or problem.get("n_prior") is not None
        if self.explicit:
            n = np.arange(self.low, self.high + 1, dtype=float)
            log = self.noise.log_weight(self.value - n)
            if problem.get("n_prior") is not None:
                prior = problem["n_prior"]
                log = log + special.xlogy(prior["shape"] - 1, n) - prior["rate"] * n
            keep = log > log.max() - 34
            self.closed = problem.get("n_prior") is None and self.low > 0 and self.noise.scale > 40
            self.numbers, self.weights = n[keep], np.exp(log[keep] - log.max())
            self.low, self.high = int(self.numbers[0]), int(self.numbers[-1])
            self.middle = round(np.average(self.numbers, weights=self.weights))
            if not self.closed:
                self.most_tilt = 300 / (self.high - self.low + 1)
        else:
            self.most_tilt = 0.9 / self.noise.scale

    def mean_given(self, kappa: Array) -> tuple[Array, Array]:
        """About the mean and variance of n under weights times e^(n kappa); infinite mean where
        they do not sum.
        """
        if self.n is not None:
            return np.full(kappa.shape, float(self.n)), np.zeros(kappa.shape)
        if self.explicit:
            variance = (
                float(np.average((self.numbers - self.middle) ** 2, weights=self.weights)) + 1e-12
            )
            return np.maximum(self.middle + variance * kappa, 0.1), np.full(kappa.shape, variance)
        b = self.noise.scale
        within = np.clip(kappa * b, -0.9, 0.9)
        mean = self.value + 2 * within * b / (1 - within**2)
        return np.maximum(mean, 0.1), 2 * b**2 * (1 + within**2) / (1 - within**2) ** 2

    def range_given(self, kappa: float) -> tuple[int, int]:
        """The least and greatest n that matter under weights times e^(n kappa)."""
        if self.n is not None:
            return self.low, self.high
        if self.explicit:
            move = int(kappa * self.noise.scale**2) if self.closed else 0
            return max(self.low + min(move, 0), 0), self.high + max(move, 0)
        left, right = 1 / self.noise.scale + kappa, 1 / self.noise.scale - kappa
        low = max(0, int(self.value - 34 / left)) if left > 0 else 0
        return low, int(max(self.value, 0.0) + 34 / right) + 2

    def strained(self, kappa: float) -> bool:
        """Whether weights times e^(n kappa) matter for numbers beyond those that are summed."""
        if self.n is not None or not self.explicit:
            return abs(kappa) > 0.89 * self.most_tilt
        top = (np.log(self.weights) + kappa * (self.numbers - self.middle)).max() - 12
        beyond = np.array([self.high + 1.0, self.low - 1.0])[: 2 if self.low > 0 else 1]
        best = self.noise.log_weight(self.value - self.numbers).max()
        log = self.noise.log_weight(self.value - beyond) - best + kappa * (beyond - self.middle)
        return bool(log.max() > top)

    def transform(
        self, centred: NDArray[np.complex128], shift: Array, kappa: float
    ) -> NDArray[np.complex128]:
        """Sum over n of weight(n) exp(n c) e^((kappa - i shift) (n - middle)), c the log transform
        of a record about its pivot.
        """
        if self.n is not None:
            return np.exp(self.n * centred)
        # log of one record's transform, tilted but not made a probability
        one = centred - 1j * shift + kappa
        top = np.exp(self.middle * centred)
        if self.explicit:
            return self._explicit(centred, one, top)
        rate = 1 / self.noise.scale
        fraction = self.value - self.middle
        if self.value < 0:
            return top / -np.expm1(one - rate)
        right = np.exp(-(1 - fraction) * rate) * np.exp(one) / -np.expm1(one - rate)
        # sum over j = 0..middle of e^(-j rate) z^-j, z = e^one; where z is small the two powers are
        # taken together
        ratio = -rate - one
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            left = top * (np.expm1((self.middle + 1) * ratio) / np.expm1(ratio))
        lost = ~np.isfinite(left)
        if lost.any():
            left[lost] = self._small(centred[lost], one[lost], rate)
        return np.exp(-fraction * rate) * left + top * right

    def _small(
        self, centred: NDArray[np.complex128], one: NDArray[np.complex128], rate: float
    ) -> NDArray[np.complex128]:
        """The left sum where |z| is far below e^(-rate): its last terms, e^(-middle rate) and those
        before it.
        """
        terms = np.arange(min(self.middle + 1, 60))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            powers = np.exp(terms[:, None] * (one + rate)[None])
            return np.nan_to_num(
                np.exp(-self.middle * rate) * powers.sum(0) * np.exp(self.middle * (centred - one))
            )

    def _explicit(
        self,
        centred: NDArray[np.complex128],
        one: NDArray[np.complex128],
        top: NDArray[np.complex128],
    ) -> NDArray[np.complex128]:
        out = np.zeros(one.shape, dtype=complex)
        live = self.low * centred.real > -60  # the rest is nothing
        one = one[live]
        if self.closed:
            offset = self.value - self.middle
            wrapped = one.real + 1j * (np.remainder(one.imag + np.pi, 2 * np.pi) - np.pi)
            out[live] = top[live] * np.exp(
                offset * wrapped + 0.5 * self.noise.scale**2 * wrapped**2
            )
            return out
        z, total = np.exp(one), np.zeros(one.shape, dtype=complex)
        for weight in self.weights[::-1]:  # Horner
            total = total * z + weight
        out[live] = total * np.exp(self.middle * centred[live] + (self.low - self.middle) * one)
        return out
