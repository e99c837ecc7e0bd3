"""Inference against NumPyro's NUTS used well, and against itself: ratios measured in one run.

Run: make bench-inference, or python bench/inference.py [one|peers|cold|many|n|counts] ... with the
extra `bench` installed.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.inference.methods import diagnostics
from noisewise.inference.methods.categorical import chain as chains

HERE = Path(__file__).parent


def cases():
    rng = np.random.default_rng(5)
    shares = rng.dirichlet(np.ones(100))
    y = rng.multinomial(10**5, shares) + rng.laplace(0, 4.0, 100)
    observe = noisewise.observe
    return {
        "bernoulli": (
            observe(
                family=families.Bernoulli(), n=1000, statistic=366.26, noise=noise.Laplace(10.0)
            ),
            priors.Beta(10, 10),
        ),
        "exponential": (
            observe(
                family=families.Exponential(),
                n=100,
                statistic=39.752,
                noise=noise.Laplace(1.5),
                bounds=Bounds(0.01, 1.5, outside="redact"),
            ),
            priors.Gamma(8, 2),
        ),
        "normal": (
            observe(
                family=families.Normal(),
                n=100,
                statistic=[30.73, 55.74],
                noise=noise.Laplace([3.0, 6.0]),
                bounds=Bounds(-4, 4, outside="clamp"),
            ),
            priors.NormalInverseGamma(0.0, 2.0, 4.0, 3.0),
        ),
        "categorical": (
            observe(
                family=families.Categorical(100), n=10**5, statistic=y, noise=noise.Laplace(4.0)
            ),
            priors.Dirichlet([1.0] * 100),
        ),
    }


def timed(call, repeat):
    call()
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def everything(release, prior):
    """A posterior with all that is asked of it: summary, 4000 draws, certificate."""
    posterior = noisewise.infer(release, prior, seed=1)
    posterior.summary()
    assert posterior.certificate.sentence
    return posterior, posterior.draws


def effective(samples):
    """The smallest effective sample size over the numbers of each parameter, (chains,
    draws, ...).
    """
    sizes = []
    for draws in samples.values():
        flat = np.asarray(draws).reshape(*draws.shape[:2], -1)
        sizes.append(diagnostics.of(np.swapaxes(flat, 0, 1)).ess.min())
    return float(min(sizes))


def per_thousand(name, release):
    """Seconds that NUTS, compiled and warm, takes for 1000 effective draws: over three runs where
    it is fast, since a run's effective draws are a matter of luck too.
    """
    import jax
    import peers

    y = jax.numpy.array(release.statistic)
    run = peers.compiled(name)
    jax.block_until_ready(run(jax.random.PRNGKey(0), y))
    seconds = draws = 0.0
    for seed in range(1, 2 if name in ("normal", "categorical") else 4):
        start = time.perf_counter()
        samples = jax.block_until_ready(run(jax.random.PRNGKey(seed), y))
        seconds += time.perf_counter() - start
        draws += effective(samples)
    return seconds / draws * 1000


def peers():

    print(
        "warm, per 1000 effective draws; auto gives 4000 independent draws, summary and certificate"
    )
    bars = {"bernoulli": 10, "exponential": 10, "normal": 1, "categorical": 10}
    for name, (release, prior) in cases().items():
        nuts = per_thousand(name, release)
        repeat = 1 if name == "categorical" else 20
        ours = timed(partial(everything, release, prior), repeat)
        print(
            f"  {name:11s} NUTS {nuts * 1e3:6.1f} ms; auto, 4000 draws {ours * 1e3:7.1f} ms; "
            f"ratio {nuts / (ours / 4):6.1f} (bar {bars[name]})"
        )
    centred()


def one():
    print("one posterior with its summary against NUTS per 1000 effective draws; groups in a batch")
    rng = np.random.default_rng(0)
    scattered = 480 + rng.laplace(0, 10, 2000) + rng.normal(0, 50, 2000)
    for name in ("bernoulli", "exponential"):
        release, prior = cases()[name]
        groups = [replace(release, statistic=(float(y),)) for y in scattered]
        nuts, ours, each = [], [], []
        for _ in range(6):  # by turns: the machine's mood weighs on all alike
            nuts.append(per_thousand(name, release))
            ours.append(timed(lambda: noisewise.infer(release, prior, seed=1).summary(), 10))  # noqa: B023
            if name == "bernoulli":
                many = timed(lambda: noisewise.infer_many(groups, prior, seed=1).table(), 1)  # noqa: B023
                each.append(many / len(groups))
        print(
            f"  {name:11s} NUTS {min(nuts) * 1e3:6.1f} ms; auto {min(ours) * 1e3:5.2f} ms; "
            f"ratio {min(nuts) / min(ours):5.1f} (bar 10)"
        )
        if each:
            print(
                f"  infer_many, 2000 bernoulli posteriors: {1 / min(each):.0f} a second, NUTS "
                f"{1 / min(nuts):.1f}; ratio {min(nuts) / min(each):.0f} (bar 300)"
            )


def centred():
    import jax
    import peers

    release, prior = cases()["bernoulli"]
    run = peers.compiled("bernoulli_centred")
    y = jax.numpy.array(release.statistic)
    jax.block_until_ready(run(jax.random.PRNGKey(0), y))
    start = time.perf_counter()
    ess = effective(jax.block_until_ready(run(jax.random.PRNGKey(1), y)))
    nuts = ess / (time.perf_counter() - start)
    start = time.perf_counter()
    posterior = noisewise.infer(release, prior, method="gibbs", draws=40_000, seed=1)
    ours = posterior.certificate.ess / (time.perf_counter() - start)
    print(
        f"  gibbs (8 chains) {ours:.0f} effective/s, NUTS on the centred model {nuts:.0f}; ratio "
        f"{ours / nuts:.1f} (bar 3)"
    )


def cold():
    print("cold, from a process to the printed summary")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    texts = {
        "bernoulli": "beta(alpha=10, beta=10)",
        "exponential": "gamma(shape=8, rate=2)",
        "normal": "normal_inverse_gamma(mean=0, strength=2, shape=4, scale=3)",
        "categorical": f"dirichlet(concentration={[1] * 100})",
    }
    for name, (release, _) in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.json"
            release.save(path)
            command = [
                sys.executable,
                "-c",
                "from noisewise.cli.main import main; main()",
                "infer",
                str(path),
                "--prior",
                texts[name],
            ]
            ours = timed(
                partial(subprocess.run, command, check=True, capture_output=True, env=env), 2
            )
        statistic = ",".join(map(str, release.statistic))
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, str(HERE / "peers.py"), name, statistic],
            check=True,
            capture_output=True,
            env=env,
        )
        nuts = time.perf_counter() - start
        print(
            f"  {name:12s} NUTS {nuts:6.2f} s; noisewise {ours:5.2f} s; ratio {nuts / ours:6.1f} "
            "(bar 10)"
        )


def many():
    print(
        "10 000 groups, each with its own n, y and epsilon: one batch against a loop of infer "
        "(over 200 of them)"
    )
    rng = np.random.default_rng(1)
    n = (10 ** rng.uniform(1, 5, 10_000)).astype(int)
    epsilon = 10 ** rng.uniform(-1, 0.5, 10_000)
    bernoulli, exponential = [], []
    for size, e in zip(n, epsilon, strict=True):
        p, rate = rng.beta(2, 5), rng.gamma(8) / 2
        s = rng.binomial(size, p) + rng.laplace(0, 1 / e)
        bernoulli.append(
            noisewise.observe(
                family=families.Bernoulli(), n=int(size), statistic=s, noise=noise.Laplace(1 / e)
            )
        )
        x = rng.exponential(1 / rate, size)
        s = np.where((x > 0.01) & (x < 1.5), x, 0).sum() + rng.laplace(0, 1.5 / e)
        exponential.append(
            noisewise.observe(
                family=families.Exponential(),
                n=int(size),
                statistic=s,
                noise=noise.Laplace(1.5 / e),
                bounds=Bounds(0.01, 1.5, outside="redact"),
            )
        )
    for name, releases, prior, bar in (
        ("bernoulli", bernoulli, priors.Beta(2, 5), 20),
        ("exponential", exponential, priors.Gamma(8, 2), 10),
    ):
        each, loop = 0.0, []
        # before and after the batch: the machine's mood weighs on both alike
        for half in (releases[:100], releases[100:200]):
            start = time.perf_counter()
            loop += [noisewise.infer(release, prior).summary()[0] for release in half]
            each += (time.perf_counter() - start) / 200
            if half[0] is releases[0]:
                start = time.perf_counter()
                table = noisewise.infer_many(releases, prior).table()
                batch = time.perf_counter() - start
        worst = max(
            abs(row[c] - one[c]) / one["sd"]
            for row, one in zip(
                [row for row in table if row["name"] == loop[0]["name"]], loop, strict=False
            )
            for c in ("mean", "sd", "5%", "95%")
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"  {name:12s} batch {batch:6.2f} s, loop {each * 1e4:6.1f} s; ratio "
            f"{each * 1e4 / batch:5.1f} (bar {bar}); "
            f"largest difference {worst:.1e} sd; peak {peak:.2f} GB (bar 1)"
        )


def by_n():
    print("time at n = 10^12 over n = 10^3 (bar 1.5)")
    for name in ("bernoulli", "exponential"):
        times = []
        for n in (10**3, 10**12):
            if name == "bernoulli":
                release = noisewise.observe(
                    family=families.Bernoulli(),
                    n=n,
                    statistic=0.37 * n,
                    noise=noise.Laplace(0.01 * n),
                )
                prior = priors.Beta(10, 10)
            else:
                release = noisewise.observe(
                    family=families.Exponential(),
                    n=n,
                    statistic=0.35 * n,
                    noise=noise.Laplace(0.01 * n),
                    bounds=Bounds(0.01, 1.5, outside="redact"),
                )
                prior = priors.Gamma(8, 2)
            times.append(timed(lambda: everything(release, prior), 20))  # noqa: B023
        print(
            f"  {name:12s} {times[0] * 1e3:.1f} ms, {times[1] * 1e3:.1f} ms; ratio "
            f"{times[1] / times[0]:.2f}"
        )


def by_counts():
    print(
        "categorical, n = 10^6, epsilon = 0.1: autocorrelation in sweeps (bar 8), a sweep at K = "
        "1000 over K = 100 (bar 12)"
    )
    rng = np.random.default_rng(2)
    law = noise.Laplace(20.0)
    for a in (0.1, 0.5, 1.0, 10.0):
        cost = {}
        for k in (3, 100, 1000):
            concentration = np.full(k, a)
            y = rng.multinomial(
                10**6, priors.Dirichlet(concentration).draw(rng, 1)[0]
            ) + rng.laplace(0, 20.0, k)
            chains = 16
            state = chains.start(np.tile(y, (chains, 1)), 1e6, concentration, rng)
            for _ in range(200):
                state = chains.sweep(state, y, concentration, law.broadcast(k), rng)
            kept = []
            start = time.perf_counter()
            for _ in range(1500):
                state = chains.sweep(state, y, concentration, law.broadcast(k), rng)
                kept.append(state)
            cost[k] = (time.perf_counter() - start) / 1500
            held = np.stack(kept)
            moving = np.ptp(held, axis=(0, 1)) > 0
            time_of = diagnostics.of(held[:, :, moving]).autocorrelation
            print(
                f"  K = {k:4d}, concentration {a:4g}: slowest {time_of.max():5.2f}; "
                f"{cost[k] * 1e3:.1f} ms a sweep"
            )
        print(f"  concentration {a:4g}: K = 1000 / K = 100 ratio {cost[1000] / cost[100]:.1f}")

    groups_of_counts(rng)


def groups_of_counts(rng):
    releases = []
    for _ in range(1000):
        n, scale = int(10 ** rng.uniform(2, 6)), 2 / rng.choice([0.1, 0.5, 1, 5])
        y = rng.multinomial(n, rng.dirichlet(np.ones(10))) + np.round(rng.laplace(0, scale, 10))
        law = noise.DiscreteLaplace(scale, 1.0)
        releases.append(
            noisewise.observe(family=families.Categorical(10), n=n, statistic=y, noise=law)
        )
    start = time.process_time()
    noisewise.infer_many(releases, priors.Dirichlet([1.0] * 10)).table()
    batch = time.process_time() - start
    start = time.process_time()
    for release in releases[:20]:
        law = release.noise.broadcast(10)
        chains.betas(
            chains.sample(
                [(np.array(release.statistic), float(release.n), law)], np.ones(10), rng
            ).counts,
            np.ones(10),
        )
    loop = (time.process_time() - start) * 50
    print(
        f"  1000 groups, K = 10: {batch:.1f} s of CPU (bar 60), a loop of the chain {loop:.0f} "
        f"s; ratio {loop / batch:.0f}"
    )


PARTS = {"one": one, "peers": peers, "cold": cold, "many": many, "n": by_n, "counts": by_counts}

if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
