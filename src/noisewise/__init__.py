"""Noise-aware Bayesian inference from differentially private statistics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisewise.artifact import NoisyCount, Release, load, load_many, observe, observe_mean
    from noisewise.curator.publish import release
    from noisewise.inference.check import Check, check
    from noisewise.inference.difference import difference
    from noisewise.inference.infer import infer, infer_many
    from noisewise.inference.likelihood_of import Likelihood, likelihood
    from noisewise.inference.mean import Mean, mean, mean_many
    from noisewise.inference.pooling.pool import pool
    from noisewise.inference.pooling.pooled import Pooled
    from noisewise.inference.posterior import Posterior
    from noisewise.inference.regress import regress, regress_many
    from noisewise.mechanism import noise
    from noisewise.model import families, priors
    from noisewise.model.bounds import Bounds, PrivateBounds
    from noisewise.model.columns import Bins
    from noisewise.study.planning import Plan, plan

_HOMES = {
    "Bins": "noisewise.model.columns",
    "Bounds": "noisewise.model.bounds",
    "Check": "noisewise.inference.check",
    "Likelihood": "noisewise.inference.likelihood_of",
    "Mean": "noisewise.inference.mean",
    "NoisyCount": "noisewise.artifact",
    "Plan": "noisewise.study.planning",
    "Pooled": "noisewise.inference.pooling.pooled",
    "Posterior": "noisewise.inference.posterior",
    "PrivateBounds": "noisewise.model.bounds",
    "Release": "noisewise.artifact",
    "check": "noisewise.inference.check",
    "mean": "noisewise.inference.mean",
    "mean_many": "noisewise.inference.mean",
    "regress": "noisewise.inference.regress",
    "regress_many": "noisewise.inference.regress",
    "difference": "noisewise.inference.difference",
    "infer": "noisewise.inference.infer",
    "infer_many": "noisewise.inference.infer",
    "likelihood": "noisewise.inference.likelihood_of",
    "load": "noisewise.artifact",
    "load_many": "noisewise.artifact",
    "observe": "noisewise.artifact",
    "observe_mean": "noisewise.artifact",
    "plan": "noisewise.study.planning",
    "pool": "noisewise.inference.pooling.pool",
    "release": "noisewise.curator.publish",
}
_MODULES = {
    "families": "noisewise.model.families",
    "noise": "noisewise.mechanism.noise",
    "priors": "noisewise.model.priors",
}

__all__ = [
    "Bins",
    "Bounds",
    "Check",
    "Likelihood",
    "Mean",
    "NoisyCount",
    "Plan",
    "Pooled",
    "Posterior",
    "PrivateBounds",
    "Release",
    "check",
    "difference",
    "families",
    "infer",
    "infer_many",
    "likelihood",
    "load",
    "load_many",
    "mean",
    "mean_many",
    "noise",
    "observe",
    "observe_mean",
    "plan",
    "pool",
    "priors",
    "regress",
    "regress_many",
    "release",
]


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used: the analyst's side never loads the curator's."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'noisewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
