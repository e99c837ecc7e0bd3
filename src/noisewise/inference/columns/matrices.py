"""Small matrices in large batches. Nothing here raises: what is no number stays NaN, and whoever
proposed it is told so.
"""

import numpy as np

from noisewise.model.arrays import FloatArray


def lower_inverse(root: FloatArray) -> FloatArray:
    """The inverse of lower triangular matrices, (batch, k, k)."""
    out = np.zeros_like(root)
    for j in range(root.shape[1]):
        out[:, j, j] = 1 / root[:, j, j]
        if j:
            row = (root[:, j : j + 1, :j] @ out[:, :j, :j])[:, 0]
            out[:, j, :j] = -row * out[:, j, j, None]
    return out


def cholesky(matrix: FloatArray) -> FloatArray:
    """The lower roots of positive matrices."""
    out = np.zeros_like(matrix)
    for j in range(matrix.shape[1]):
        column = matrix[:, j:, j]
        if j:
            column = column - (out[:, j:, :j] @ out[:, j, :j, None])[:, :, 0]
        out[:, j:, j] = column / np.sqrt(column[:, :1])
    return out


def inverse(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of positive matrices, with the logarithm of the determinant."""
    root = cholesky(matrix)
    back = lower_inverse(root)
    k = np.arange(matrix.shape[1])
    return back.swapaxes(1, 2) @ back, 2 * np.log(root[:, k, k]).sum(axis=1)
