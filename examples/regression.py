"""A regression three times: the posterior; least squares on the noisy moments, which ignores the
noise; and least squares on the records, which nobody outside may see.

Run: python examples/regression.py RELEASE PICTURE
"""

import sys
from pathlib import Path

import numpy as np
import pandas
from three_ways import Answer, show

import noisewise

OUTCOME, ON = "bp", ["age", "sex", "smoker"]
release, picture = noisewise.load(sys.argv[1]), sys.argv[2]
posterior = noisewise.regress(release, OUTCOME, ON, seed=1)


def least_squares(gram: np.ndarray, cross: np.ndarray, square: float, n: float) -> tuple:
    """Coefficients and their standard errors from X'X, X'y and y'y."""
    beta = np.linalg.solve(gram, cross)
    variance = max(square - beta @ cross, 0.0) / (n - len(beta))
    return beta, np.sqrt(np.maximum(variance * np.diag(np.linalg.inv(gram)), 0.0))


def own_units(beta: np.ndarray, se: np.ndarray) -> tuple:
    """From columns between -1 and 1 to their own; the intercept is left out."""
    unit = posterior.family.outcome.bounds.radius
    radius = [getattr(c, "bounds", None) for c in posterior.family.on for _ in c.names]
    scale = unit / np.array([1.0 if b is None else b.radius for b in radius])
    return beta[1:] * scale, se[1:] * scale


# naive: the noisy moments as if they were true
family, n = release.family, release.count.value
place = [family.numbers.index(name) for name in posterior.family.coefficients]
y = family.numbers.index(OUTCOME)
moment = np.diag(np.array(release.statistic[: len(family.numbers)]))  # an indicator's square
for value, (j, k) in zip(release.statistic[len(family.numbers) :], family.products, strict=True):
    moment[j, k] = moment[k, j] = value + (family.less * n if j == k else 0.0)
for j, one in enumerate(family.owners):
    for k, other in enumerate(family.owners):
        if one is other and j != k:
            moment[j, k] = 0.0
sums = np.array(release.statistic[: len(family.numbers)])
gram = np.block(
    [[np.array([[n]]), sums[place][None]], [sums[place][:, None], moment[np.ix_(place, place)]]]
)
cross = np.concatenate([[sums[y]], moment[place, y]])
naive = own_units(*least_squares(gram, cross, moment[y, y], n))

# the records themselves
table = pandas.read_csv(Path(__file__).parent / "patients.csv").dropna()
design = np.column_stack(
    [np.ones(len(table)), table["age"], table["sex"] == "m", table["smoker"] == "yes"]
).astype(float)
outcome = table["bp"].to_numpy(dtype=float)
true, true_se = least_squares(design.T @ design, design.T @ outcome, outcome @ outcome, len(table))


def interval(beta: np.ndarray, se: np.ndarray) -> dict[str, Answer]:
    every = zip(labels, beta * step, se * step, strict=True)
    return {name: (b, b - 1.645 * sd, b + 1.645 * sd) for name, b, sd in every}


# the change of blood pressure for ten years, and for the other level of a factor
labels = ["age, for 10 years more", "sex: m against f", "smoker: yes against no"]
step = np.array([10.0, 1.0, 1.0])
own = [
    (posterior.mean(name) * by, *(end * by for end in posterior.interval(name, 0.9)))
    for name, by in zip(posterior.family.coefficients, step, strict=True)
]
show(
    {
        "posterior": dict(zip(labels, own, strict=True)),
        "noisy moments taken for true": interval(*naive),
        "the records themselves": interval(true[1:], true_se[1:]),
    },
    "change of blood pressure (mmHg)",
    picture,
    zero=True,
)
