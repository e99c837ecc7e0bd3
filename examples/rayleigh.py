"""A family of one's own: the Rayleigh distribution, as of wave heights or of the length of a random
horizontal wind.

density x/v exp(-x^2 / 2v) on x >= 0, with v > 0 unknown. t(x) = x^2, eta = -1/(2v), A(eta) =
-log(-2 eta), h(x) = x.

Run: python examples/rayleigh.py
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import noisewise
from noisewise import Bounds, families, priors


@dataclass(frozen=True)
class Rayleigh(families.Family):
    # Enough for a release: a kind, the support of a record, and the statistic.
    kind: ClassVar[str] = "rayleigh"
    support: ClassVar = (0.0, np.inf)

    def statistic(self, x: Any, xp: Any = np) -> tuple[Any, ...]:
        return (x * x,)

    # For a posterior: the parameter, the density, and the conjugate prior.
    parameters: ClassVar = (families.Parameter("v", 0, np.inf),)
    prior: ClassVar = priors.InverseGamma

    def natural(self, theta: Any) -> Any:
        return -0.5 / theta

    def log_partition(self, eta: Any, xp: Any = np) -> Any:
        return -xp.log(-2 * eta[..., 0])

    def log_base_measure(self, x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(x, 0))

    def mean(self, theta: Any) -> Any:
        return 2 * theta

    def covariance(self, theta: Any) -> Any:
        return (4 * theta**2)[:, :, None]

    def cdf(self, x: Any, theta: Any) -> Any:
        return -np.expm1(-(np.maximum(x, 0) ** 2) / (2 * theta))

    def simulate(self, rng: np.random.Generator, theta: Any, n: int) -> Any:
        return np.sqrt(2 * theta * rng.standard_exponential((len(theta), n)))

    def update(self, prior: Any, statistic: Any, n: int) -> Any:
        return priors.InverseGamma(prior.shape + n, prior.scale + statistic[:, 0] / 2)


if __name__ == "__main__":
    import pandas as pd

    # invented wave heights, in metres
    heights = Rayleigh().simulate(np.random.default_rng(1), np.array([[2.0]]), 500)[0]
    release = noisewise.release(
        pd.DataFrame({"height": heights}),
        column="height",
        family=Rayleigh(),
        bounds=Bounds(0, 8, outside="clamp"),
        epsilon=0.5,
        ledger=None,
    )
    print(release.to_json())
