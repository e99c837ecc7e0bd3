"""The reference posteriors of tests/oracle/cases.json: brute-force simulation, weighted by the
noise.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import noisewise
from noisewise import Bounds, Release, families, noise, priors
from noisewise.inference.posterior import Posterior

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "oracle" / "cases.json").read_text()
)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def release_of(case: dict[str, Any]) -> Release:
    fields = dict(case["family"])
    kind = fields.pop("kind")
    family = (
        families.Categorical(fields["k"])
        if kind == "categorical"
        else families.REGISTRY[kind](**fields)
    )
    bounds = None if case["bounds"] is None else Bounds(**case["bounds"])
    law = noise.REGISTRY[case["noise"]["kind"]](case["noise"]["scale"])
    return noisewise.observe(
        family=family, n=case["n"], statistic=case["released"], noise=law, bounds=bounds
    )


def prior_of(case: dict[str, Any]) -> priors.Prior:
    fields = dict(case["prior"])
    return priors.REGISTRY[fields.pop("kind")](**fields)


def misses(posterior: Posterior, case: dict[str, Any]) -> list[tuple[float, float, float, float]]:
    """For each number: error of the mean, of the sd (relative), of the quantiles, and the case's
    Monte Carlo error, in sds.
    """
    out = []
    for title, reference in case["posterior"].items():
        name, _, index = title.partition("[")
        pick = (lambda v: v) if not index else (lambda v, j=int(index[:-1]): np.asarray(v)[..., j])
        held = reference["quantiles"]
        quantiles = np.array(list(held.values()) if isinstance(held, dict) else held)
        mean = abs(pick(posterior.mean(name)) - reference["mean"]) / reference["sd"]
        sd = abs(pick(posterior.sd(name)) / reference["sd"] - 1)
        q = np.abs(pick(posterior.quantile(name, LEVELS)) - quantiles).max() / reference["sd"]
        out.append((float(mean), float(sd), float(q), reference["mcse"] / reference["sd"]))
    return out
