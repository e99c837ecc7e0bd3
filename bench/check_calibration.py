"""How often does `noisewise check` reject a model that is right, and how often one that is wrong?

`right`: every one-column family, clamp and redact, n public and released, Laplace and normal noise;
the truth is fixed, or drawn from the prior. At 5 % a right model must be rejected in 3 to 7 % of
trials; three standard errors of the trials are allowed on top, so that of a line at the very limit
one in 700 fails.

`wrong`: how often records of another law are found, by what the histogram costs.

Run: python bench/check_calibration.py [right|wrong] [--trials 1000] [--jobs 2] [--only TEXT].
Stop it and start it again: finished chunks are kept in bench/data and not done again.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.progress import Progress
from scipy import stats

from noisewise import Bins, Bounds, families, priors
from noisewise.study import engine
from noisewise.study.checks import CheckSetting, p_values

FOLDER = Path(__file__).parent / "data"
CHUNK, REPLICATES = 50, 199
LEAST, MOST, AT = 0.03, 0.07, 0.05
EVEN = Bins(np.linspace(0, 60, 13))
CLAMP, REDACT = Bounds(0, 60, outside="clamp"), Bounds(0, 60, outside="redact")


def right():
    """Models with records of their own."""
    exponential = CheckSetting(
        families.Exponential(), priors.Gamma(2, 20), CLAMP, EVEN, 1000, 0.5, 0.2
    )
    poisson = CheckSetting(
        families.Poisson(), "weak", Bounds(0, 30, outside="clamp"),
        Bins([0, 2, 4, 6, 8, 10, 14, 30]), 1000, 0.5, 0.2, truth=(5.0,),
    )  # fmt: skip
    normal = CheckSetting(
        families.Normal(), "weak", CLAMP, EVEN, 1000, 0.5, 0.2, truth=(25.0, 64.0)
    )
    positive = Bounds(0.5, 60, outside="clamp")
    edges = Bins([0.5, 3, 6, 9, 12, 16, 20, 25, 30, 40, 50, 60])
    log_normal = CheckSetting(
        families.LogNormal(), "weak", positive, edges, 1000, 0.5, 0.2, truth=(2.5, 0.4)
    )
    gamma = replace(log_normal, family=families.Gamma(), truth=(3.0, 0.2))
    shares = CheckSetting(
        families.Beta(), "weak", Bounds(0.01, 0.99, outside="clamp"),
        Bins([0.01, 0.2, 0.4, 0.6, 0.8, 0.99]), 1000, 0.5, 0.2, truth=(2.0, 3.0),
    )  # fmt: skip
    return {
        "exponential, truth from the prior": exponential,
        "exponential, redact": replace(exponential, bounds=REDACT, truth=(0.1,)),
        "exponential, redact, truth from the prior": replace(exponential, bounds=REDACT),
        "exponential, n released": replace(exponential, neighbours="add_remove", truth=(0.1,)),
        "exponential, n = 50": replace(exponential, n=50, truth=(0.1,)),
        "exponential, n = 10^5": replace(exponential, n=10**5, truth=(0.1,)),
        "exponential, sharp histogram": replace(exponential, bins_epsilon=5.0, truth=(0.1,)),
        "exponential, normal noise": replace(exponential, normal=True, truth=(0.1,)),
        "poisson": poisson,
        "poisson, redact, n released": replace(
            poisson, bounds=Bounds(0, 30, outside="redact"), neighbours="add_remove"
        ),
        "normal": normal,
        "normal, redact": replace(normal, bounds=REDACT),
        "normal, n = 100": replace(normal, n=100),
        "normal, n released": replace(normal, neighbours="add_remove"),
        "normal, sharp histogram": replace(normal, bins_epsilon=5.0),
        "normal, normal noise": replace(normal, normal=True),
        "log-normal": log_normal,
        "gamma": gamma,
        "beta": shares,
    }


def long_tail(rng, n):
    return rng.lognormal(3.0, 0.5, n)


def two_humps(rng, n):
    return np.where(rng.random(n) < 0.5, rng.normal(15, 4, n), rng.normal(40, 4, n))


def regular(rng, n):
    return rng.gamma(3, 10 / 3, n)


def spread_counts(rng, n):
    return rng.negative_binomial(5, 0.5, n).astype(float)


def wrong():
    """Records that are passed off as something else."""
    own = right()
    normal = replace(own["normal"], truth=None)
    exponential = replace(own["exponential, redact"], bounds=CLAMP, truth=None)
    poisson = replace(own["poisson"], truth=None)
    cases = {
        "a log-normal as normal": (normal, long_tail),
        "two humps as normal": (normal, two_humps),
        "a gamma of shape 3 as exponential": (exponential, regular),
        "counts of twice the variance as poisson": (poisson, spread_counts),
    }
    return {
        f"{name}, n = {n}, epsilon = {epsilon:g}": replace(
            setting, records=records, n=n, bins_epsilon=epsilon
        )
        for name, (setting, records) in cases.items()
        for n, epsilon in ((300, 0.2), (1000, 0.1), (1000, 0.2), (1000, 0.5))
    }


def chunk(setting, trials, rng):
    return {"p": p_values(setting, trials, rng, REPLICATES)}


def judge(found, must):
    failed = 0
    for name, p in found.items():
        share = float((p <= AT).mean())
        error = np.sqrt(AT * (1 - AT) / p.size)
        bad = must and not LEAST - 3 * error <= share <= MOST + 3 * error
        failed += bad
        ks = stats.kstest(p, "uniform").pvalue if must else float("nan")
        said = f"; KS against uniform p = {ks:.2g}  {'FAIL' if bad else 'pass'}" if must else ""
        print(f"{name:65s} rejected at 5 % in {share:6.1%} of {p.size}{said}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="right", choices=["right", "wrong"])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="settings whose title contains this")
    asked = parser.parse_args()
    start = time.perf_counter()
    folder = FOLDER / f"check-{asked.what}-{asked.seed}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    engine.claim(folder, {"study": f"check {asked.what}", "seed": asked.seed})
    items = {
        name: item
        for name, item in (right() if asked.what == "right" else wrong()).items()
        if asked.only in name
    }
    chunks = {
        name: [
            engine.Chunk(f"{name} chunk {k}", chunk, (item, CHUNK))
            for k in range(-(-asked.trials // CHUNK))
        ]
        for name, item in items.items()
    }
    every = [one for own in chunks.values() for one in own]
    with Progress() as bar:
        task = bar.add_task(f"{len(items)} settings", total=len(every))
        done = engine.run(
            every, folder, asked.seed, asked.jobs, report=lambda *_: bar.advance(task)
        )
    found = {
        name: np.concatenate([done[one.key]["p"] for one in own]) for name, own in chunks.items()
    }
    failed = judge(found, asked.what == "right")
    print(
        f"{len(found)} settings, {failed} failed; {(time.perf_counter() - start) / 60:.1f} minutes"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
