"""Groups that contradict the population: what their own release says, and what all others say of
them, hardly overlap.
"""

import numpy as np

from noisewise.inference.pooling.densities import Densities
from noisewise.inference.pooling.reference import Reference
from noisewise.model.arrays import FloatArray


def conflicts(densities: Densities, reference: Reference) -> FloatArray:
    """For each group twice the smaller of the probabilities that a theta which its own release
    allows is above, or below, one that the population found from all other groups allows,
    (groups,) (Marshall & Spiegelhalter 2007); 1 where the release says nothing.
    """
    psi, below, above = densities.log_without_cdf()
    out = np.ones(len(densities.groups))
    for g, curve in enumerate(densities.groups.curves):
        if densities.groups.flat[g]:
            continue
        at = np.union1d(curve.psi, psi[(psi > curve.psi[0]) & (psi < curve.psi[-1])])
        value = densities.groups.between.at(at, np.full(at.size, g)) + reference.log_psi(at)
        height = np.exp(value - value.max())
        weight = np.zeros(at.size)
        weight[:-1] += np.diff(at) / 2
        weight[1:] += np.diff(at) / 2
        weight *= height
        weight /= weight.sum()
        larger = float(weight @ np.interp(at, psi, below[g], left=0.0, right=1.0))
        smaller = float(weight @ np.interp(at, psi, above[g], left=1.0, right=0.0))
        out[g] = min(2 * min(larger, smaller), 1.0)
    return out
