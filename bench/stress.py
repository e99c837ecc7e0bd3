"""400 random problems of every one-column family against a slow integration of its own (slow_posterior.py, slow_plane.py).

Run: python bench/stress.py --cache FOLDER [--only 17] [--seed 0] [--problems 400] [--oracle-only]

For each problem: the largest distance between the distribution functions of the library and of the oracle, whether the
certificate warned, the CPU seconds of `infer`, and what went wrong. The oracle's answers are kept in the cache, one file for
each problem, and not computed again; the library's are computed every time. The problems depend on the seed alone. The library
runs in a process of its own, which is ended and started again where it takes longer than --patience seconds.
"""

import argparse
import hashlib
import json
import math
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import slow_posterior as oracle
from slow_posterior import Answer, Marginal, Problem

VERSION = 4
"""Of the oracle: a change of its answers makes older files of the cache stale."""
LEVELS = np.concatenate([[0.002, 0.01], np.arange(0.02, 0.99, 0.02), [0.99, 0.998]])
OFF, UNSURE, SLOW = 0.02, 0.003, 3.0
"""A distance that counts as wrong, an oracle's error beyond which it is not heard, and CPU seconds that count as slow."""
KINDS = ("bernoulli", "poisson", "geometric", "exponential", "gamma", "mean", "variance", "both", "categorical")
SHARES = (45, 48, 46, 48, 48, 45, 45, 45, 30)
NOISES = ("laplace", "discrete_laplace", "gaussian", "discrete_gaussian")


# ------------------------------------------------------------------------------------------------------ problems


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def pick(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def draw_n(rng: np.random.Generator) -> int:
    low, high = pick(rng, (1, 10), (10, 1000), (10, 1000), (1e3, 1e6), (1e3, 1e6), (1e6, 1e12))
    return round(log_uniform(rng, low, high))


def draw_epsilon(rng: np.random.Generator) -> float:
    return log_uniform(rng, 0.01, 50) if rng.random() < 0.7 else log_uniform(rng, 1e-6, 50)


def draw_prior(rng: np.random.Generator, kind: str, unit: float, centre: float) -> Problem:
    """From weak to sharp, some piled up at a boundary; `unit` is the scale of the records, `centre` where they lie."""
    sharp = log_uniform(rng, 0.5, 1e4)
    odd = rng.random() < 0.2
    if kind in ("bernoulli", "geometric"):
        if odd:
            a, b = pick(rng, (0.01, 50.0), (50.0, 0.01), (0.1, 0.1), (0.02, 1.0), (1.0, 1e4), (300.0, 0.5))
            return {"kind": "beta", "alpha": a, "beta": b}
        p = rng.uniform(0.02, 0.98)
        return {"kind": "beta", "alpha": float(2 * p * sharp), "beta": float(2 * (1 - p) * sharp)}
    if kind in ("exponential", "gamma", "poisson"):
        shape = pick(rng, 0.01, 0.1, 0.3) if odd else sharp
        typical = 1 / unit if kind != "poisson" else unit
        return {"kind": "gamma", "shape": float(shape), "rate": float(shape / typical * log_uniform(rng, 0.5, 2))}
    if kind == "mean":
        wide = log_uniform(rng, 1e-3, 1e3) if odd else log_uniform(rng, 0.03, 10)
        return {"kind": "normal", "mean": centre + unit * float(rng.normal()), "sd": unit * wide}
    shape = pick(rng, 0.3, 0.8, 1.5) if odd else 1 + sharp
    if kind == "variance":
        return {"kind": "inverse_gamma", "shape": float(shape), "scale": float((shape + 1) * unit**2 * log_uniform(rng, 0.5, 2))}
    return {
        "kind": "normal_inverse_gamma",
        "mean": centre + unit * float(rng.normal()),
        "strength": log_uniform(rng, 0.05, 50),
        "shape": float(shape),
        "scale": float((shape + 1) * unit**2 * log_uniform(rng, 0.5, 2)),
    }


def draw_theta(rng: np.random.Generator, prior: Problem) -> np.ndarray:
    """From the prior, kept within what a simulation of records can stand."""
    kind = prior["kind"]
    if kind == "beta":
        return np.array([np.clip(rng.beta(prior["alpha"], prior["beta"]), 1e-9, 1 - 1e-9)])
    if kind == "gamma":
        return np.array([max(rng.gamma(prior["shape"]), prior["shape"] * 1e-4) / prior["rate"]])
    if kind == "normal":
        return np.array([rng.normal(prior["mean"], prior["sd"])])
    variance = prior["scale"] / max(rng.gamma(prior["shape"]), 0.02 * prior["shape"])
    if kind == "inverse_gamma":
        return np.array([variance])
    return np.array([rng.normal(prior["mean"], np.sqrt(variance / prior["strength"])), variance])


def draw_bounds(rng: np.random.Generator, kind: str, family: Problem, theta: np.ndarray, unit: float) -> tuple[float, float, str]:
    """Around the bulk of the records, narrow, wide, or in a tail."""
    from scipy import stats

    if kind in ("exponential", "gamma"):
        law: Any = stats.gamma(family.get("shape", 1.0), scale=1 / theta[0])
    elif kind == "poisson":
        law = stats.poisson(min(theta[0], 1e5))
    elif kind == "geometric":
        law = stats.geom(max(theta[0], 1e-3))
    elif kind == "mean":
        law = stats.norm(theta[0], np.sqrt(family["variance"]))
    elif kind == "variance":
        law = stats.norm(family["mean"], np.sqrt(theta[0]))
    else:
        law = stats.norm(theta[0], np.sqrt(theta[1]))
    low, high = pick(
        rng, (0.005, 0.995), (0.02, 0.98), (0.001, 0.999), (0.1, 0.8), (0.3, 0.6), (1e-6, 1 - 1e-6), (0.97, 0.9999), (0.0005, 0.1)
    )
    a, b = float(law.ppf(low)), float(law.ppf(high))
    if kind in ("exponential", "gamma", "poisson", "geometric") and rng.random() < 0.6:
        a = 1.0 if kind == "geometric" else 0.0
    if rng.random() < 0.1:
        b = b + 5 * (b - a)
    if kind in ("poisson", "geometric"):
        a, b = math.floor(a), min(math.floor(a) + 1500, max(math.ceil(b), math.floor(a) + int(rng.integers(1, 6))))
        return float(max(a, 1 if kind == "geometric" else 0)), float(b), pick(rng, "clamp", "redact")
    if not b - a > 1e-6 * max(abs(a), abs(b)):
        b = a + unit
    digits = 3 - math.floor(math.log10(b - a))
    return round(a, digits) if a else 0.0, round(b, digits), pick(rng, "clamp", "redact")


def draw_family(rng: np.random.Generator, kind: str, unit: float, centre: float) -> Problem:
    if kind == "gamma":
        return {"kind": "gamma", "shape": pick(rng, 0.05, 0.4, 1.0, 2.5, 7.0, 30.0)}
    if kind == "mean":
        return {"kind": "normal", "unknown": "mean", "variance": unit**2 * log_uniform(rng, 0.1, 3)}
    if kind == "variance":
        return {"kind": "normal", "unknown": "variance", "mean": centre}
    if kind == "both":
        return {"kind": "normal", "unknown": "both"}
    return {"kind": kind}


def draw_noise(rng: np.random.Generator, kind: str, ranges: list[float], whole: bool, epsilon: float) -> Problem:
    """Laplace noise of scale (sum of the ranges)/epsilon on every statistic, or normal noise; realistic or coarse steps."""
    scale = [r * len(ranges) / epsilon for r in ranges]
    noise: Problem = {"kind": kind, "scale": scale}
    if kind.startswith("discrete"):
        coarse = rng.random() < 0.4
        if whole:
            step = pick(rng, 2.0, 3.0, 5.0, 0.5) if coarse else 1.0
            noise["step"] = [step] * len(ranges)
        else:
            parts = pick(rng, 2, 3, 5, 7.5, 20, 100, 1000)
            noise["step"] = [r / parts if coarse else 2.0 ** math.ceil(math.log2(r) - 20) for r in ranges]
    return noise


def add_noise(rng: np.random.Generator, noise: Problem, sums: np.ndarray) -> list[float]:
    """The released values, on the lattice of the noise where it has one."""
    out = []
    for j, total in enumerate(sums):
        z = rng.normal(0, noise["scale"][j]) if "gaussian" in noise["kind"] else rng.laplace(0, noise["scale"][j])
        out.append(float(on_lattice(noise, j, total + z)))
    return out


def on_lattice(noise: Problem, j: int, value: float) -> float:
    return value if "step" not in noise else noise["step"][j] * math.floor(value / noise["step"][j] + 0.5)


def simulate(rng: np.random.Generator, problem: Problem, theta: np.ndarray, n: int) -> np.ndarray:
    """The sums of n records' contributions."""
    if problem["family"].get("unknown") == "both":
        import slow_plane

        t, p = slow_plane.record_law(problem, theta)
    else:
        law = oracle.record_law(problem, oracle.coordinate_of(problem).of(theta))
        t, p = law.t[0][:, None], law.p[0]
    p = np.maximum(p, 0)
    return rng.multinomial(n, p / p.sum()) @ t


def adversarial(rng: np.random.Generator, problem: Problem, low: np.ndarray, high: np.ndarray, n: int) -> tuple[list[float], str]:
    """Statistics that the model did not make: beyond what n records can reach, on its edges, of another n."""
    size = np.array(problem["noise"]["scale"])
    what = pick(rng, "below", "above", "least", "greatest", "zero", "other n", "anywhere", "far")
    if what == "below":
        y = n * low - size * log_uniform(rng, 0.3, 30)
    elif what == "above":
        y = n * high + size * log_uniform(rng, 0.3, 30)
    elif what in ("least", "greatest"):
        y = n * (low if what == "least" else high)
    elif what == "zero":
        y = 0 * low
    elif what == "other n":
        y = np.array(problem["statistic"]) * pick(rng, 0.1, 0.5, 2.0, 10.0)
    elif what == "anywhere":
        y = n * (low + (high - low) * rng.random())
    else:
        y = n * pick(rng, low, high) + size * log_uniform(rng, 30, 1e3) * pick(rng, -1, 1)
    return [float(on_lattice(problem["noise"], j, value)) for j, value in enumerate(y)], what


def draw_problem(seed: int, number: int) -> Problem:
    rng = np.random.default_rng([seed, number])
    kind = KINDS[int(np.searchsorted(np.cumsum(SHARES), (number * 149 + 7) % sum(SHARES), side="right"))]
    n, epsilon, noise_kind = draw_n(rng), draw_epsilon(rng), pick(rng, *NOISES)
    if kind == "categorical":
        return draw_categorical(rng, n, epsilon, noise_kind)
    unit = log_uniform(rng, 0.2, 300) if kind == "poisson" else log_uniform(rng, 1e-3, 1e3)
    centre = unit * pick(rng, 0.0, 0.0, 1.0, -3.0, 50.0)
    family = draw_family(rng, kind, unit, centre)
    prior = draw_prior(rng, kind, unit, centre)
    theta = draw_theta(rng, prior)
    problem: Problem = {"family": family, "prior": prior, "n": n, "count": None, "n_prior": None, "coordinates": "plain"}
    problem["bounds"] = None if kind == "bernoulli" else draw_bounds(rng, kind, family, theta, unit)
    if kind == "both" and rng.random() < 0.7:
        problem["coordinates"] = "standardised"
    whole = kind in ("bernoulli", "poisson", "geometric")
    if kind == "both":
        import slow_plane

        low, high = slow_plane.statistic_ranges(problem)
    else:
        low, high = (np.array([value]) for value in oracle.statistic_range(problem))
    problem["noise"] = draw_noise(rng, noise_kind, list(high - low), whole, epsilon)
    problem["statistic"] = add_noise(rng, problem["noise"], simulate(rng, problem, theta, n))
    problem["how"] = "from the prior"
    if rng.random() < 0.25:
        problem["statistic"], problem["how"] = adversarial(rng, problem, low, high, n)
    if kind != "both" and rng.random() < 0.22:
        hide_n(rng, problem, n, noise_kind, epsilon)
    return problem


def hide_n(rng: np.random.Generator, problem: Problem, n: int, noise_kind: str, epsilon: float) -> None:
    """Make n unknown: a noisy count of the same kind of noise, and sometimes a prior of n."""
    scale = 2 / epsilon
    if "gaussian" in noise_kind and scale > 25 and n < 12 * scale:
        scale = float(rng.uniform(1, 25))  # the oracle sums over every n
    noise: Problem = {"kind": noise_kind, "scale": [scale]}
    if noise_kind.startswith("discrete"):
        noise["step"] = [1.0]
    value = add_noise(rng, noise, np.array([float(n)]))[0]
    problem["n"], problem["count"] = None, {"value": value, "noise": noise}
    if rng.random() < 0.3 and scale < 8:
        shape = log_uniform(rng, 2, 200)
        problem["n_prior"] = {"kind": "gamma", "shape": shape, "rate": shape / max(n, 1) * log_uniform(rng, 0.7, 1.4)}


def draw_categorical(rng: np.random.Generator, n: int, epsilon: float, noise_kind: str) -> Problem:
    k = int(rng.integers(2, 5))
    concentration = [log_uniform(rng, 0.05, 30) for _ in range(k)]
    noise: Problem = {"kind": noise_kind, "scale": [2 / epsilon] * k}
    if noise_kind.startswith("discrete"):
        noise["step"] = [1.0] * k
    problem: Problem = {
        "family": {"kind": "categorical", "k": k},
        "prior": {"kind": "dirichlet", "concentration": concentration},
        "n": n, "count": None, "n_prior": None, "bounds": None, "coordinates": "plain", "noise": noise, "how": "from the prior",
    }  # fmt: skip
    sums = rng.multinomial(n, rng.dirichlet(np.maximum(concentration, 0.05)))
    problem["statistic"] = add_noise(rng, noise, sums.astype(float))
    if rng.random() < 0.2:
        problem["statistic"], problem["how"] = adversarial(rng, problem, np.zeros(k), np.ones(k), n)
    elif rng.random() < 0.2 and n < 300 and epsilon > 0.5:
        problem["n"] = None
    return problem


def title(problem: Problem) -> str:
    """A problem on one line."""

    def numbers(values: Problem) -> str:
        return ", ".join(
            f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in values.items() if k not in ("kind", "unknown", "k")
        )

    family, prior, noise = problem["family"], problem["prior"], problem["noise"]
    name = family["kind"] if family["kind"] != "normal" else f"normal-{family['unknown']}"
    known = numbers(family)
    where = "" if problem["bounds"] is None else " {2}[{0:.4g}, {1:.4g}]".format(*problem["bounds"])
    if problem["coordinates"] == "standardised":
        where += " standardised"
    hyper = numbers(prior) if "concentration" not in prior else ", ".join(f"{c:.3g}" for c in prior["concentration"])
    size = f"n={problem['n']:.4g}" if problem["n"] is not None else "n=?"
    if problem["count"] is not None:
        size = f"n~{problem['count']['value']:.6g}+-{problem['count']['noise']['scale'][0]:.3g}"
    if problem["n_prior"] is not None:
        size += f" n_prior({numbers(problem['n_prior'])})"
    step = f" step {noise['step'][0]:.3g}" if "step" in noise else ""
    y = ", ".join(f"{value:.6g}" for value in problem["statistic"])
    scales = ", ".join(f"{value:.3g}" for value in noise["scale"][:2])
    return f"{name}({known}) ~ ({hyper}){where} {size} {noise['kind']}({scales}{step}) y={y} [{problem['how']}]"


# -------------------------------------------------------------------------------------------------------- oracle


def digest(problem: Problem) -> str:
    text = json.dumps(problem, sort_keys=True) + f" version {VERSION}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Held:
    """The oracle's answer as the cache holds it."""

    answer: Answer
    moments: dict[str, tuple[float, float]]
    seconds: float


def solve(problem: Problem, cache: Path, again: bool) -> Held:
    """The oracle's posterior, from the cache where it is there."""
    file = cache / f"{digest(problem)}.npz"
    if again or not file.exists():
        start = time.process_time()
        found = oracle.solve(problem)
        seconds = time.process_time() - start
        arrays: dict[str, Any] = {"names": np.array(list(found.marginals)), "error": found.error, "seconds": seconds}
        for i, marginal in enumerate(found.marginals.values()):
            thin = thinned(marginal)
            arrays |= {f"theta{i}": thin.theta, f"cdf{i}": thin.cdf, f"moments{i}": np.array(marginal.moments())}
        np.savez_compressed(file, **arrays)
    held = np.load(file)
    names = [str(name) for name in held["names"]]
    marginals = {name: Marginal(held[f"theta{i}"], held[f"cdf{i}"]) for i, name in enumerate(names)}
    moments = {name: tuple(held[f"moments{i}"]) for i, name in enumerate(names) if f"moments{i}" in held}
    return Held(Answer(marginals, float(held["error"])), moments, float(held["seconds"]))


def thinned(marginal: Marginal) -> Marginal:
    """The points between which neither the probability nor the place changes much."""
    keep = np.zeros(len(marginal.theta), dtype=bool)
    keep[[0, -1]] = True
    keep[np.searchsorted(marginal.cdf, np.linspace(0, 1, 1500)).clip(0, len(keep) - 1)] = True
    keep[np.searchsorted(marginal.cdf, np.linspace(0, 1, 1500), side="right").clip(1, len(keep)) - 1] = True
    return Marginal(marginal.theta[keep], marginal.cdf[keep])


# ------------------------------------------------------------------------------------------------------- library


def build(problem: Problem) -> tuple[Any, Any, Any]:
    """The release, its prior and the prior of n, as objects of the library."""
    import noisewise
    from noisewise import Bounds, NoisyCount, families, noise, priors

    def noise_of(held: Problem) -> Any:
        make = {
            "laplace": noise.Laplace, "discrete_laplace": noise.DiscreteLaplace,
            "gaussian": noise.Gaussian, "discrete_gaussian": noise.DiscreteGaussian,
        }[held["kind"]]  # fmt: skip
        return make(held["scale"], held["step"]) if "step" in held else make(held["scale"])

    def prior_of(held: Problem) -> Any:
        make = {
            "beta": priors.Beta, "gamma": priors.Gamma, "normal": priors.Normal, "inverse_gamma": priors.InverseGamma,
            "normal_inverse_gamma": priors.NormalInverseGamma, "dirichlet": priors.Dirichlet,
        }[held["kind"]]  # fmt: skip
        return make(**{k: v for k, v in held.items() if k != "kind"})

    held = problem["family"]
    if held["kind"] == "normal":
        family: Any = families.Normal(**{k: v for k, v in held.items() if k in ("mean", "variance")})
    elif held["kind"] == "categorical":
        family = families.Categorical(held["k"])
    else:
        names = {
            "bernoulli": "Bernoulli",
            "poisson": "Poisson",
            "geometric": "Geometric",
            "exponential": "Exponential",
            "gamma": "Gamma",
        }
        family = getattr(families, names[held["kind"]])(**{k: v for k, v in held.items() if k != "kind"})
    bounds, count = problem["bounds"], problem["count"]
    release = noisewise.observe(
        family=family,
        n=problem["n"],
        count=None if count is None else NoisyCount(count["value"], noise_of(count["noise"])),
        statistic=problem["statistic"],
        noise=noise_of(problem["noise"]),
        bounds=None if bounds is None else Bounds(bounds[0], bounds[1], outside=bounds[2]),
        coordinates=problem["coordinates"],
    )
    return release, prior_of(problem["prior"]), None if problem["n_prior"] is None else prior_of(problem["n_prior"])


def run_library(problem: Problem) -> dict[str, Any]:
    """Everything that the comparison needs of the library's posterior, as plain numbers."""
    import noisewise

    release, prior, n_prior = build(problem)
    start = time.process_time()
    posterior = noisewise.infer(release, prior, n_prior=n_prior, seed=1)
    rows = [dict(row) for row in posterior.summary()]
    warnings = list(posterior.certificate.warnings)
    seconds = time.process_time() - start
    quantiles: dict[str, list[float]] = {}
    for name in posterior.names:
        values = np.asarray(posterior.quantile(name, LEVELS))
        if values.ndim == 1:
            quantiles[name] = values.tolist()
        else:
            quantiles |= {f"{name}[{j}]": values[:, j].tolist() for j in range(values.shape[1])}
    return {"quantiles": quantiles, "summary": rows, "warnings": warnings, "seconds": seconds, "method": posterior.method}


def work() -> None:
    """Answer problems from standard input, a line each."""
    warm = {"family": {"kind": "bernoulli"}, "prior": {"kind": "beta", "alpha": 1.0, "beta": 1.0}, "n": 50, "count": None}
    warm |= {"n_prior": None, "bounds": None, "coordinates": "plain", "statistic": [20.0]}
    run_library(warm | {"noise": {"kind": "laplace", "scale": [2.0]}})
    both = {"kind": "normal_inverse_gamma", "mean": 0.0, "strength": 1.0, "shape": 3.0, "scale": 3.0}
    warm |= {
        "family": {"kind": "normal", "unknown": "both"},
        "prior": both,
        "bounds": (-3.0, 3.0, "clamp"),
        "statistic": [2.0, 40.0],
    }
    run_library(warm | {"noise": {"kind": "laplace", "scale": [2.0, 2.0]}})
    for line in sys.stdin:
        try:
            out = run_library(json.loads(line))
        except Exception as error:  # whatever it is, it is the finding
            out = {"error": f"{type(error).__name__}: {error}"}
        print("ANSWER " + json.dumps(out), flush=True)


class Library:
    """The library in a process of its own."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.process: subprocess.Popen[str] | None = None

    def ask(self, problem: Problem) -> dict[str, Any]:
        if self.process is None:
            command = [sys.executable, str(HERE / "stress.py"), "--worker"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(problem) + "\n")
        self.process.stdin.flush()
        end = time.monotonic() + self.patience
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            if not ready:
                break
            line = self.process.stdout.readline()
            if line.startswith("ANSWER "):
                return dict(json.loads(line[7:]))
            if not line:
                self.close()
                return {"error": "the process died"}
        self.close()
        return {"error": f"no answer within {self.patience:g} s"}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


# ---------------------------------------------------------------------------------------------------- comparison


def distance(found: Answer, quantiles: dict[str, list[float]]) -> tuple[float, str]:
    """The largest |F(oracle) - F(library)| over the library's own quantiles, and where it is."""
    worst, where = 0.0, ""
    for name, marginal in found.marginals.items():
        values = np.array([math.nan if v is None else v for v in quantiles.get(name, [math.nan] * len(LEVELS))], dtype=float)
        low, high = marginal.probability(values)
        gap = np.maximum(np.maximum(LEVELS - high, low - LEVELS), 0.0)
        gap = np.where(np.isfinite(values), gap, 1.0)
        if gap.max() > worst:
            i = int(gap.argmax())
            middle = marginal.quantile(np.array([0.05, 0.5, 0.95]))
            ours = [values[int(np.abs(LEVELS - q).argmin())] for q in (0.05, 0.5, 0.95)]
            worst = float(gap[i])
            where = "{}: oracle 5/50/95 % {:.6g} {:.6g} {:.6g}, library {:.6g} {:.6g} {:.6g}".format(name, *middle, *ours)
    return worst, where


def figures_finite(out: dict[str, Any]) -> bool:
    """Every number in the summary is finite, or said to be none."""
    for row in out["summary"]:
        for key, value in row.items():
            if key != "name" and value is not None and not (isinstance(value, str) or math.isfinite(value)):
                return False
    return all(v is not None and math.isfinite(v) for values in out["quantiles"].values() for v in values)


def moments_off(problem: Problem, held: Held, out: dict[str, Any]) -> float:
    """How far the reported mean is from the oracle's, in sds, and the log ratio of the sds; where both surely exist."""
    if problem["prior"]["kind"] in ("inverse_gamma", "normal_inverse_gamma") and problem["prior"]["shape"] < 3:
        return 0.0
    worst = 0.0
    for row in out["summary"]:
        mean, sd = held.moments.get(row["name"], (math.nan, math.nan))
        if row.get("mean") is not None and row.get("sd") is not None and sd > 1e-9 * abs(mean):
            worst = max(worst, abs(row["mean"] - mean) / sd, abs(math.log(max(row["sd"], 1e-300) / sd)))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, help="a folder for the oracle's answers")
    parser.add_argument("--only", type=int, action="append", help="this problem alone; may be given more than once")
    parser.add_argument("--kind", choices=KINDS, help="problems of this kind alone")
    parser.add_argument("--problems", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for the library, for each problem")
    parser.add_argument("--oracle-only", action="store_true")
    parser.add_argument("--again", action="store_true", help="compute the oracle anew")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
        return 0
    if arguments.cache is None:
        parser.error("--cache FOLDER is needed")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    numbers = arguments.only or list(range(arguments.problems))
    library = Library(arguments.patience)
    results = []
    try:
        for number in numbers:
            problem = draw_problem(arguments.seed, number)
            if arguments.kind and kind_of(problem) != arguments.kind:
                continue
            results.append(one(number, problem, library, arguments))
    finally:
        library.close()
    summarise([r for r in results if r])
    return 0


def kind_of(problem: Problem) -> str:
    family = problem["family"]
    return str(family["unknown"] if family["kind"] == "normal" else family["kind"])


def one(number: int, problem: Problem, library: Library, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Solve one problem both ways and print its line."""
    try:
        held = solve(problem, arguments.cache, arguments.again)
    except Exception as error:  # an oracle that fails is said to have failed, and the rest goes on
        print(f"{number:3d} the oracle failed: {type(error).__name__}: {error}  {title(problem)}", flush=True)
        return {"number": number, "verdict": "oracle failed", "seconds": 0.0, "warned": False}
    found = held.answer
    print(f"{number:3d} oracle {held.seconds:.1f} s, its error {found.error:.1e}", file=sys.stderr, flush=True)
    if arguments.oracle_only:
        return None
    out = library.ask(problem)
    row: dict[str, Any] = {"number": number, "seconds": out.get("seconds", math.nan), "warned": bool(out.get("warnings"))}
    if "error" in out:
        verdict, gap, where = "ERROR", math.nan, out["error"]
    else:
        gap, where = distance(found, out["quantiles"])
        verdict = "ok"
        if not figures_finite(out):
            verdict = "NOT FINITE"
        elif found.error > UNSURE:
            verdict = "oracle unsure"
        elif gap > OFF:
            verdict = "off, warned" if row["warned"] else "OFF"
        elif (moments := moments_off(problem, held, out)) > 0.1:
            verdict, where = "MOMENTS", f"mean or sd off by {moments:.3g}"
    row |= {"verdict": verdict, "distance": gap}
    warned = "warned" if row["warned"] else "-"
    line = f"{number:3d} {verdict:13s} distance {gap:.4f} (oracle {found.error:.0e}) {warned:6s} {row['seconds']:6.2f} s"
    print(f"{line}  {title(problem)}", flush=True)
    if verdict not in ("ok", "oracle unsure"):
        print(f"      {where}", flush=True)
    return row


def summarise(rows: list[dict[str, Any]]) -> None:
    def count(verdict: str) -> list[int]:
        return [row["number"] for row in rows if row["verdict"] == verdict]

    print(f"\n{len(rows)} problems")
    for verdict, said in (
        ("OFF", f"off by more than {OFF} without a warning"),
        ("off, warned", f"off by more than {OFF} with a warning"),
        ("NOT FINITE", "with a figure that is not finite"),
        ("ERROR", "with an error or no answer"),
        ("MOMENTS", "with a right distribution, but a mean or sd off by more than 0.1 sd"),
        ("oracle unsure", f"not judged: the oracle's own error is above {UNSURE}"),
        ("oracle failed", "not judged: the oracle failed"),
    ):
        numbers = count(verdict)
        print(f"{len(numbers):4d} {said}: {' '.join(map(str, numbers))}")
    slow = [row["number"] for row in rows if row["seconds"] > SLOW]
    print(f"{len(slow):4d} above {SLOW:g} s of CPU: {' '.join(map(str, slow))}")
    print(f"{sum(row['warned'] for row in rows):4d} warn")


if __name__ == "__main__":
    sys.exit(main())
