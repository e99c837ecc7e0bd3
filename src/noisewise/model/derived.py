"""Quantities that people use beside a family's parameters: the sd beside the variance, the mean
beside a rate.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import FloatArray


@dataclass(frozen=True)
class Derived:
    """q in (lower, upper), a function of the parameters. In coordinates without bounds (log, logit,
    or itself, as of a parameter) it is slope a + shift + other(theta2), a being that of the
    parameter at `of`.

    A q of one parameter is then a monotone function of it, and has exact quantiles; one with
    `other` has them given the second parameter.
    """

    name: str
    of: int = 0
    slope: float = 1.0
    shift: float = 0.0
    lower: float = 0.0
    upper: float = np.inf
    other: Callable[[FloatArray], FloatArray] | None = None
    """Of the second parameter; `of` is then the first."""
