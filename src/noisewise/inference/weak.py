"""Weakly informative priors from public facts alone: the family and the bounds of the release.

Each puts the mean of a record about the middle of the bounds and leaves its size open over more
than an order of magnitude. They are for a first look; what is known beforehand belongs into a prior
of one's own.
"""

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.problem import example
from noisewise.model import families, notation, priors
from noisewise.model.priors import Prior


def prior_for(release: Release, prior: "Prior | str") -> Prior:
    """A prior as it is, or from the text of the command line: "weak", or such as "gamma(shape=2,
    rate=20)".
    """
    if not isinstance(prior, str):
        return prior
    return weak_prior(release) if prior.strip() == "weak" else notation.prior(prior)


def weak_prior(release: Release) -> Prior:
    """The weak prior for a release: see docs/inference.md for the table."""
    family, bounds = release.family, release.bounds
    middle = 0.0 if bounds is None else (bounds.lower + bounds.upper) / 2
    quarter = 1.0 if bounds is None else (bounds.upper - bounds.lower) / 4
    match family:
        case families.Bernoulli() | families.Geometric():
            return priors.Beta(1, 1)
        case families.Categorical():
            return priors.Dirichlet([1.0] * len(family.labels))
        case families.Exponential():
            return priors.Gamma(1, middle)
        case families.Gamma():
            return priors.Gamma(1, middle / family.shape)
        case families.Poisson():
            return priors.Gamma(1, 1 / middle)
    if family.prior is priors.NormalInverseGamma:
        return priors.NormalInverseGamma(middle, 0.1, 1, quarter**2)
    if family.prior is priors.Normal:
        return priors.Normal(middle, 4 * quarter)
    if family.kind == "normal":
        return priors.InverseGamma(1, quarter**2)
    raise UnsupportedCombination(
        f"there is no weak prior for the {family.kind} family; give one, such as {example(family)}."
    )
