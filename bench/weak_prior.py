"""Do intervals under the weak prior hold the truth, and does a posterior say where it leans on it?

Records of families that are right, within bounds that a person might choose without looking: how
many 90 % intervals miss the truth, of which one in ten should, how many of these have no warning at
all, and in how many trials the certificate says that a parameter leans on the weak prior. The last
lines are columns that fill their bounds: there it should say nothing.

Run: python bench/weak_prior.py [--trials 40] [--only TEXT]
"""

import argparse

import numpy as np
import pandas as pd

import noisewise
from noisewise import Bounds, families


def clamp(lower, upper):
    return Bounds(lower, upper, outside="clamp")


def redact(lower, upper):
    return Bounds(lower, upper, outside="redact")


NORMAL, EXPONENTIAL = families.Normal(), families.Exponential()
PRESSURE = NORMAL, lambda rng, n: rng.normal(120, 15, n), clamp(60, 220)
SETTINGS = {
    "blood pressure, n=500, epsilon=0.1": (*PRESSURE, 500, 0.1, "sd", 15),
    "blood pressure, n=500, epsilon=0.3": (*PRESSURE, 500, 0.3, "sd", 15),
    "blood pressure, n=500, epsilon=1": (*PRESSURE, 500, 1, "sd", 15),
    "a body mass index within 10 to 100": (
        NORMAL, lambda rng, n: rng.normal(26, 4.4, n), clamp(10, 100), 442, 1, "sd", 4.4,
    ),
    "waits of 12 within 0 to 300": (
        EXPONENTIAL, lambda rng, n: rng.exponential(12, n), clamp(0, 300), 100, 0.5, "mean", 12,
    ),
    "waits of 3 within 0 to 60": (
        EXPONENTIAL, lambda rng, n: rng.exponential(3, n), clamp(0, 60), 200, 0.5, "mean", 3,
    ),
    "incomes within 10 to 100 000": (
        families.LogNormal(), lambda rng, n: rng.lognormal(6.75, 0.5, n), clamp(10, 1e5), 235, 0.3,
        "log_variance", 0.25,
    ),
    "a Pareto within 2 to 10 000": (
        families.Pareto(minimum=2), lambda rng, n: 2 * (1 + rng.pareto(2.5, n)), clamp(2, 1e4), 200,
        0.5, "index", 2.5,
    ),
    "blood pressure, n=500, epsilon=1, redact": (*PRESSURE[:2], redact(60, 220), 500, 1, "sd", 15),
    "waits of 3 within 0 to 60, redact": (
        EXPONENTIAL, lambda rng, n: rng.exponential(3, n), redact(0, 60), 200, 2, "mean", 3,
    ),
    "stays of 4 days within 0 to 90": (
        families.Gamma(shape=2), lambda rng, n: rng.gamma(2, 2, n), clamp(0, 90), 300, 1, "mean", 4,
    ),
    "lifetimes of 5 years within 0 to 50": (
        families.Weibull(shape=1.5), lambda rng, n: 5 * rng.weibull(1.5, n), clamp(0, 50), 300, 1,
        "rate", 5**-1.5,
    ),
    "errors of sd 2 within -50 to 50": (
        families.Normal(mean=0), lambda rng, n: rng.normal(0, 2, n), clamp(-50, 50), 2000, 1, "sd",
        2,
    ),
    "blood pressure, n=20 000, epsilon=2": (*PRESSURE, 20_000, 2, "sd", 15),
    "waits of 10 within 0 to 60": (
        EXPONENTIAL, lambda rng, n: rng.exponential(10, n), clamp(0, 60), 1000, 0.5, "mean", 10,
    ),
    "a normal of sd 8 within 0 to 60": (
        NORMAL, lambda rng, n: rng.normal(30, 8, n), clamp(0, 60), 1000, 0.5, "sd", 8,
    ),
    "counts of 5 within 0 to 30": (
        families.Poisson(), lambda rng, n: rng.poisson(5, n).astype(float), clamp(0, 30), 1000, 0.5,
        "rate", 5,
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--only", default="", help="settings whose title contains this")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)  # of the records; the noise of a release has no seed
    for title, (family, draw, bounds, n, epsilon, name, truth) in SETTINGS.items():
        if asked.only not in title:
            continue
        missed = silent = told = 0
        for _ in range(asked.trials):
            release = noisewise.release(
                pd.DataFrame({"x": draw(rng, n)}), column="x", family=family, bounds=bounds,
                epsilon=epsilon, ledger=None,
            )  # fmt: skip
            posterior = noisewise.infer(release, "weak")
            low, high = posterior.interval(name, 0.9)
            misses = not low <= truth <= high
            missed += misses
            silent += misses and not posterior.certificate.warnings
            told += bool(posterior.certificate.leaning)
        print(
            f"{title:42s} {name:12s} missed {missed:2d} of {asked.trials}, {silent:2d} without a "
            f"warning; told to lean in {told:2d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
