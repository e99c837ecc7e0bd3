"""Lemma 1 of the paper: truncated moments as derivatives of log P(v <= x <= w) in the natural
parameter, by JAX.
"""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.family import Family, IntervalMoments


def interval_moments(
    family: Family, theta: FloatArray, lower: float, upper: float
) -> IntervalMoments:
    """mean = E t + d log q / d eta, covariance = Var t + d^2 log q / d eta^2 (equations
    2 and 3).
    """
    jax = _jax()
    with jax.enable_x64(True):
        special = _special(jax)

        def log_q(eta: Any) -> Any:
            return family.log_probability(eta, lower, upper, jax.numpy, special)

        eta = jax.numpy.asarray(family.natural(theta))
        slope_of = jax.jacfwd(log_q)
        value, slope, curvature = (
            np.asarray(jax.vmap(f)(eta)) for f in (log_q, slope_of, jax.jacfwd(slope_of))
        )
    return IntervalMoments(value, family.mean(theta) + slope, family.covariance(theta) + curvature)


def cumulants(family: Family, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of t as derivatives of the log-partition function (equation 1)."""
    jax = _jax()
    with jax.enable_x64(True):
        eta = jax.numpy.asarray(family.natural(theta))

        def partition(one: Any) -> Any:
            return family.log_partition(one, jax.numpy)

        slope = jax.jacfwd(partition)
        return np.asarray(jax.vmap(slope)(eta)), np.asarray(jax.vmap(jax.jacfwd(slope))(eta))


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise UnsupportedCombination(
            "automatic differentiation needs JAX: pip install 'noisewise[autodiff]'."
        ) from None
    return jax


@cache  # one function object, so that JAX compiles it once
def _special(jax: Any) -> Namespace:
    """SciPy's names in JAX, with a log Phi whose derivatives keep their digits in the lower tail.

    JAX's own log_ndtr uses a short asymptotic series there, good to 4e-9 in the value and less in
    its derivatives.
    """
    np_, sp = jax.numpy, jax.scipy.special

    @jax.jit  # type: ignore[untyped-decorator]
    def log_ndtr(x: Any) -> Any:
        tail = np_.minimum(x, -5.0)
        # Laplace's continued fraction of the Mills ratio, from its 80th term back to the first.
        fraction = jax.lax.fori_loop(0, 80, lambda j, f: -tail + (80 - j) / f, -tail)
        in_tail = -0.5 * tail * tail - 0.5 * np.log(2 * np.pi) - np_.log(fraction)
        return np_.where(x < -5.0, in_tail, np_.log(sp.ndtr(np_.maximum(x, -5.0))))

    return SimpleNamespace(log_ndtr=log_ndtr, gammainc=sp.gammainc, gammaincc=sp.gammaincc)
