"""Regressions from noisy moments against NUTS and Bernstein & Sheldon's sampler: ratios of one run.

Run: python bench/regression.py [one|cold|groups|n] ... with the extra `bench` installed.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import regression_peers as peers
from regression_calibration import law

import noisewise
from noisewise import Bounds, NoisyCount, Release, families
from noisewise.inference.methods import diagnostics

HERE = Path(__file__).parent
UNIT = Bounds(-1, 1, outside="redact")
BETA, SIGMA = np.array([0.1, 0.3, -0.2, 0.15]), 0.2


def made(n, epsilon=1.0, seed=3):
    """A release of three covariates and an outcome last; what its peers are told of it."""
    rng = np.random.default_rng(seed)
    size = min(n, 100_000)
    x = np.column_stack(
        [
            2 * rng.beta(2, 3, size) - 1,
            np.minimum(rng.exponential(0.35, size), 1.9) - 0.95,
            rng.uniform(-0.9, 0.9, size),
        ]
    )
    y = np.clip(BETA[0] + x @ BETA[1:] + SIGMA * rng.standard_normal(size), -1, 1)
    family = families.Moments({"a": UNIT, "b": UNIT, "c": UNIT, "y": UNIT})
    sums = np.array([one.sum() for one in family.statistic([*x.T, y])]) * (n / size)
    own = law(family, epsilon, "laplace").broadcast(sums.size)
    release = Release(family, n, tuple((sums + own.simulate(rng, 1)[0]).tolist()), own)
    return release, np.array(family.products).T, float(own.scales[0])


def regressed(release, draws=4000):
    posterior = noisewise.regress(release, "y", ["a", "b", "c"], draws=draws, seed=1)
    posterior.table()
    assert posterior.certificate.ess is not None
    return posterior


def effective(draws):
    """Of every coefficient, (steps, chains, quantities): the smallest."""
    return float(diagnostics.of(draws).ess.min())


def ours(release):
    start = time.perf_counter()
    posterior = regressed(release)
    seconds = time.perf_counter() - start
    return seconds, min(posterior.certificate.ess, 4000), posterior


def one():
    import jax

    print("three covariates, n = 1000, epsilon = 1: seconds for 2000 effective draws, warm")
    release, pairs, scale = made(1000)
    y = np.array(release.statistic)
    run = peers.nuts(1000.0, 3, scale, "laplace", pairs)
    jax.block_until_ready(run(jax.random.PRNGKey(0), y))
    ours(release)
    pairs_of_times = []
    for seed in (1, 2, 3):  # by turns: the machine's speed varies
        start = time.perf_counter()
        samples = jax.block_until_ready(run(jax.random.PRNGKey(seed), y))
        seconds = time.perf_counter() - start
        draws = np.concatenate(
            [np.asarray(samples["beta"]), np.asarray(samples["sigma"])[:, :, None]], axis=2
        )
        nuts = seconds / effective(draws.swapaxes(0, 1)) * 2000
        seconds, ess, posterior = ours(release)
        pairs_of_times.append((nuts, seconds / ess * 2000))
    nuts, mine = np.median(np.array(pairs_of_times), axis=0)
    print(f"  NUTS {nuts:.2f} s, regress {mine:.2f} s: ratio {nuts / mine:.1f} (bar 2)")
    beta = draws.reshape(-1, draws.shape[2])
    for place, name in enumerate(("intercept", "a", "b", "c", "sigma")):
        print(
            f"    {name:9s} NUTS {beta[:, place].mean():+.3f} +- {beta[:, place].std():.3f}; "
            f"regress {posterior.mean(name):+.3f} +- {posterior.sd(name):.3f}"
        )
    steps = 4000
    start = time.perf_counter()
    draws = peers.bernstein_sheldon(np.random.default_rng(1), 1000, 3, scale, pairs, y, steps)
    seconds = time.perf_counter() - start
    kept = draws[steps // 4 :, None, :]
    theirs = seconds / effective(kept) * 2000
    print(
        f"  Bernstein & Sheldon {theirs:.0f} s ({effective(kept):.0f} effective draws of {steps} "
        f"steps in {seconds:.1f} s): ratio {theirs / mine:.0f} (bar 20)"
    )


def cold():
    print("the same from a cold start: process, imports, compilation, one posterior")
    release, pairs, scale = made(1000)
    with tempfile.TemporaryDirectory() as folder:
        file, json = Path(folder, "y.npz"), Path(folder, "r.json")
        np.savez(file, y=release.statistic, pairs=pairs, scale=scale, n=1000, numbers=3)
        release.save(json)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        commands = {
            "NUTS": [sys.executable, str(HERE / "regression_peers.py"), str(file)],
            "regress": [
                *(str(Path(sys.executable).with_name("noisewise")), "regress", str(json)),
                *("--outcome", "y", "--on", "a", "b", "c"),
            ],
        }
        times = {}
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            times[name] = time.perf_counter() - start
    ratio = times["NUTS"] / times["regress"]
    print(
        f"  NUTS {times['NUTS']:.1f} s, noisewise regress {times['regress']:.1f} s: ratio "
        f"{ratio:.1f} (bar 5)"
    )


def grouped(many):
    """Releases of groups of 300 to 1000 records with two covariates, at epsilon = 1."""
    family = families.Moments({"y": UNIT, "a": UNIT, "b": UNIT}, less=0.5)
    rng, releases = np.random.default_rng(0), []
    own = law(family, 1.0, "laplace")
    for _ in range(many):
        n = int(rng.integers(300, 1000))
        a = 2 * rng.beta(2, 3, n) - 1
        b = np.minimum(rng.exponential(0.35, n), 1.9) - 0.95
        y = 0.1 + rng.normal(0.3, 0.1) * a - 0.2 * b + 0.2 * rng.standard_normal(n)
        sums = np.array([one.sum() for one in family.statistic([np.clip(y, -1, 1), a, b])])
        noisy = sums + own.broadcast(sums.size).simulate(rng, 1)[0]
        count = NoisyCount(n + float(own.broadcast(1).simulate(rng, 1)[0, 0]), own.broadcast(1))
        releases.append(
            Release(family, n, tuple(noisy.tolist()), own.broadcast(sums.size), count=count)
        )
    return releases


def groups():
    print("1000 groups x 2 covariates in one batch")
    releases = grouped(1000)
    start = time.perf_counter()
    found = noisewise.regress_many(releases, "y", ["a", "b"], draws=1000, seed=1)
    seconds = time.perf_counter() - start
    ess = np.array([one.certificate.ess for one in found])
    rhat = np.array([one.certificate.rhat for one in found])
    good = (ess >= 400) & (rhat < 1.05)
    print(
        f"  {1000 / seconds:.1f} a second (bar 20); {good.sum()} of 1000 with ESS >= 400 and R-hat "
        f"< 1.05; the least ESS {ess.min():.0f}, the largest R-hat {rhat.max():.3f}"
    )


def n():
    print("one regression of three covariates, whatever n")
    for size in (10**3, 10**6, 10**12):
        release, _, _ = made(size)
        ours(release)
        times = [ours(release) for _ in range(3)]
        print(
            f"  n = 10^{round(np.log10(size))}: {np.median([t[0] for t in times]):.2f} s, "
            f"{np.median([t[1] for t in times]):.0f} effective draws"
        )


if __name__ == "__main__":
    parts = {"one": one, "cold": cold, "groups": groups, "n": n}
    for name in sys.argv[1:] or parts:
        parts[name]()
