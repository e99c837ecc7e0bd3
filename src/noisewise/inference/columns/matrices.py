"""Small matrices in large batches. Nothing here raises: what is no number stays NaN, and whoever
proposed it is told so.

NumPy takes as long for a step along the last axis, of three numbers, as for one along a batch of
hundreds. So the batch is what lies together in memory (Fortran's order) where matrices are small,
and sums of products go along it.
"""

from typing import Literal

import numpy as np

from noisewise.model.arrays import FloatArray

SMALL = 6
"""Up to so many rows; of larger ones, each lies together."""


def order(k: int) -> Literal["C", "F"]:
    """How batches of matrices of k rows lie in memory."""
    return "F" if k <= SMALL else "C"


def times(a: FloatArray, b: FloatArray) -> FloatArray:
    """The products of matrices, (..., i, j) and (..., j, k)."""
    if a.shape[-1] <= SMALL:
        return np.asarray(np.einsum("...ij,...jk->...ik", a, b))
    return np.asarray(a @ b)


def times_vector(a: FloatArray, v: FloatArray) -> FloatArray:
    """The products of matrices and vectors, (..., i, j) and (..., j)."""
    return np.asarray(np.einsum("...ij,...j->...i", a, v))


def lower_inverse(root: FloatArray) -> FloatArray:
    """The inverse of lower triangular matrices, (batch, k, k)."""
    out = np.zeros_like(root)
    for j in range(root.shape[1]):
        out[:, j, j] = 1 / root[:, j, j]
        if j:
            row = times_vector(out[:, :j, :j].swapaxes(1, 2), root[:, j, :j])
            out[:, j, :j] = -row * out[:, j, j, None]
    return out


def cholesky(matrix: FloatArray) -> FloatArray:
    """The lower roots of positive matrices."""
    out = np.zeros_like(matrix)
    for j in range(matrix.shape[1]):
        column = matrix[:, j:, j]
        if j:
            column = column - times_vector(out[:, j:, :j], out[:, j, :j])
        out[:, j:, j] = column / np.sqrt(column[:, :1])
    return out


def inverse(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of positive matrices, with the logarithm of the determinant."""
    root = cholesky(matrix)
    back = lower_inverse(root)
    k = np.arange(matrix.shape[1])
    return times(back.swapaxes(1, 2), back), 2 * np.log(root[:, k, k]).sum(axis=1)
