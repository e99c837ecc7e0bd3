"""What the reader of several columns' posterior must know: how many records counted, what is mostly
prior, and where the model bends.
"""

import numpy as np
from scipy import special

from noisewise.artifact import Release
from noisewise.inference.columns.asked import Asked
from noisewise.inference.columns.solve import Sampled
from noisewise.model.arrays import FloatArray
from noisewise.model.columns import Factor

PRIOR_SD_OF_SD = 0.2608
"""Under the prior: m uniform on (-1, 1), sd uniform on (0, sqrt(1 - m^2))."""
PRIOR_SD_OF_INDICATOR = 0.1116
"""The same of sqrt(m(1 - m)) with m uniform on (0, 1)."""
HARDLY = 0.5
"""A covariate whose sd has more than this share of its prior's sd left is hardly known."""
BEYOND = 0.02
"""More of an outcome's own law beyond its bounds bends the line."""


def records_kept(release: Release, size: FloatArray) -> tuple[float, float] | None:
    """The 5 and 95 % quantiles of the share of records that counted; None where it is not asked."""
    if release.n is None or release.count is None or release.n == 0:
        return None
    low, high = np.quantile(size, [0.05, 0.95]) / release.n
    return float(low), float(high)


def regression_cautions(asked: Asked, coefficients: int, found: Sampled) -> tuple[str, ...]:
    """What the certificate of a regression warns of."""
    out = []
    if float(np.quantile(found.point.size, 0.05)) < coefficients + 2:
        out.append(
            f"there may be no more records than the {coefficients} coefficients: the answer is "
            "mostly prior."
        )
    out += _mostly_prior(asked, found.point.root)
    beta, sigma = (one.reshape(-1, one.shape[2]) for one in found.parameters[:2])
    mean, root, r = found.point.mean, found.point.root, found.point.root.shape[1] - 1
    centre = beta[:, 0] + (beta[:, 1:] * mean[:, :r]).sum(axis=1)
    along = (beta[:, None, 1:] @ root[:, :r, :r])[:, 0] if r else np.zeros((len(beta), 1))
    spread = np.sqrt((along**2).sum(axis=1) + sigma[:, 0] ** 2)
    beyond = special.ndtr((-1 - centre) / spread) + special.ndtr((centre - 1) / spread)
    share = float(beyond.mean())
    if share > BEYOND:
        name = asked.columns[-1].name
        out.append(
            f"about {share:.0%} of the outcome {name!r} would lie outside its bounds under this "
            "model: there records are left out or moved, and the line bends. Wider bounds of the "
            "outcome help."
        )
    return tuple(out)


def _mostly_prior(asked: Asked, root: FloatArray) -> list[str]:
    hardly = []
    place = 0
    for column in asked.columns[: len(asked.columns) - asked.responses]:
        prior = PRIOR_SD_OF_INDICATOR if isinstance(column, Factor) else PRIOR_SD_OF_SD
        rows = range(place, place + len(column.names))
        sds = [np.sqrt((root[:, j] ** 2).sum(axis=1)).std() for j in rows]
        if max(sds) > HARDLY * prior:
            hardly.append(repr(column.name))
        place += len(column.names)
    if not hardly:
        return []
    return [
        f"the noise hides how much {', '.join(hardly)} varies: what is said of it is mostly prior. "
        "More records, a larger epsilon or narrower bounds tell more."
    ]
