"""`difference`: how much larger a parameter is in one group than in another."""

from typing import Any

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.apart import check_apart
from noisewise.inference.posterior import Posterior
from noisewise.inference.quantities import of_draws
from noisewise.inference.value import Value

POOLED = "pooled"
"""The method of posteriors that lean on one population."""


def difference(a: Posterior, b: Posterior, name: str) -> Value:
    """The parameter `name` of posterior a less that of b, or a quantity beside the parameters such
    as "sd", as draws: mean, sd, interval, and `.probability(above=0)`, that it is larger in a.

    The two must be of different records, and so independent: two releases of one dataset are
    refused unless they are disjoint groups of it.
    """
    for one in (a, b):
        if not isinstance(one, Posterior):
            raise UnsupportedCombination(
                f"difference takes two posteriors, got {type(one).__name__}; infer from each "
                "release first."
            )
    if a is b:
        raise UnsupportedCombination("a posterior is given twice; give two.")
    if POOLED in (a.method, b.method):
        raise UnsupportedCombination(
            "pooled groups lean on one population and are not independent; use "
            "pooled.difference(one, other)."
        )
    if a.releases and b.releases:
        check_apart(
            [*a.releases, *b.releases],
            "posteriors from the same records are not independent, and a difference of their draws "
            "would be wrong",
        )
    one, other = (_draws(posterior, name) for posterior in (a, b))
    if one.shape[1:] != other.shape[1:]:
        raise UnsupportedCombination(f"{name} has not as many numbers in both; compare alike ones.")
    size = min(len(one), len(other))
    labels = tuple(map(str, a.family.labels_of(name))) if one.ndim > 1 else ()
    return Value(one[:size] - other[:size], labels)


def _draws(posterior: Posterior, name: str) -> Any:
    if name in posterior.names:
        return np.asarray(posterior.draws[name])
    if name in posterior.derived:
        parameters = [posterior.draws[one] for one in posterior.names]
        return of_draws(posterior.derived_of(name), posterior.family.parameters, parameters)
    raise UnsupportedCombination(
        f"no parameter {name!r}; the {posterior.family.kind} family has "
        f"{', '.join((*posterior.names, *posterior.derived))}."
    )
