"""The built-in families. Defining a subclass of `Family` with a `kind` of its own registers it
beside them.
"""

from noisewise.model.families.bernoulli import Bernoulli
from noisewise.model.families.beta import Beta
from noisewise.model.families.binomial import Binomial
from noisewise.model.families.categorical import Categorical
from noisewise.model.families.exponential import Exponential
from noisewise.model.families.gamma import Gamma
from noisewise.model.families.geometric import Geometric
from noisewise.model.families.log_normal import LogNormal
from noisewise.model.families.moments import Moments
from noisewise.model.families.negative_binomial import NegativeBinomial
from noisewise.model.families.normal import Normal
from noisewise.model.families.pareto import Pareto
from noisewise.model.families.poisson import Poisson
from noisewise.model.families.table import Table
from noisewise.model.families.weibull import Weibull
from noisewise.model.family import REGISTRY, Family, IntervalMoments, Parameter

__all__ = [
    "REGISTRY",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Exponential",
    "Family",
    "Gamma",
    "Geometric",
    "IntervalMoments",
    "LogNormal",
    "Moments",
    "NegativeBinomial",
    "Normal",
    "Parameter",
    "Pareto",
    "Poisson",
    "Table",
    "Weibull",
]
