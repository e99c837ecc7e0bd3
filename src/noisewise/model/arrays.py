"""The array types that the whole package speaks: float64, with a leading batch axis unless a
comment says otherwise.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
ComplexArray: TypeAlias = NDArray[np.complex128]
Namespace: TypeAlias = Any
"""`numpy`, `jax.numpy`, or the curator's stand-in with the same functions for the columns of a
database.
"""


def highest(rows: FloatArray) -> FloatArray:
    """The highest number of each row, for many short rows, along which NumPy's own
    maximum is slow.
    """
    return np.asarray(np.ascontiguousarray(rows.T).max(axis=0))


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


def log_gamma(x: Any, xp: Namespace = np) -> Any:
    """log Gamma(x), of NumPy's or JAX's numbers."""
    if xp is np:
        from scipy.special import gammaln
    else:
        from jax.scipy.special import gammaln
    return gammaln(x)


def positive_tuple(name: str, value: float | Sequence[float], why: str) -> tuple[float, ...]:
    """Return a positive finite number, or a non-empty sequence of them, as a tuple of floats."""
    values = (
        tuple(float(v) for v in value)
        if isinstance(value, (Sequence, np.ndarray))
        else (float(value),)
    )
    if not values or not all(0 < v < np.inf for v in values):  # NaN fails too
        raise ValueError(f"{name} must be positive and finite, got {value}; {why}.")
    return values
