"""The random problems of bench/stress.py: plain dicts that depend on a seed and a number alone."""

import math
from typing import Any

import numpy as np
from scipy import stats
from slow import plane_records, records
from slow.coordinate import coordinate_of
from slow.types import Problem

KINDS = (
    "bernoulli",
    "poisson",
    "geometric",
    "exponential",
    "gamma",
    "mean",
    "variance",
    "both",
    "categorical",
)
SHARES = (45, 48, 46, 48, 48, 45, 45, 45, 30)
NOISES = ("laplace", "discrete_laplace", "gaussian", "discrete_gaussian")


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
    """From weak to sharp, some piled up at a boundary; `unit` is the scale of the records, `centre`
    where they lie.
    """
    sharp = log_uniform(rng, 0.5, 1e4)
    odd = rng.random() < 0.2
    if kind in ("bernoulli", "geometric"):
        if odd:
            a, b = pick(
                rng, (0.01, 50.0), (50.0, 0.01), (0.1, 0.1), (0.02, 1.0), (1.0, 1e4), (300.0, 0.5)
            )
            return {"kind": "beta", "alpha": a, "beta": b}
        p = rng.uniform(0.02, 0.98)
        return {"kind": "beta", "alpha": float(2 * p * sharp), "beta": float(2 * (1 - p) * sharp)}
    if kind in ("exponential", "gamma", "poisson"):
        shape = pick(rng, 0.01, 0.1, 0.3) if odd else sharp
        typical = 1 / unit if kind != "poisson" else unit
        return {
            "kind": "gamma",
            "shape": float(shape),
            "rate": float(shape / typical * log_uniform(rng, 0.5, 2)),
        }
    if kind == "mean":
        wide = log_uniform(rng, 1e-3, 1e3) if odd else log_uniform(rng, 0.03, 10)
        return {"kind": "normal", "mean": centre + unit * float(rng.normal()), "sd": unit * wide}
    shape = pick(rng, 0.3, 0.8, 1.5) if odd else 1 + sharp
    if kind == "variance":
        return {
            "kind": "inverse_gamma",
            "shape": float(shape),
            "scale": float((shape + 1) * unit**2 * log_uniform(rng, 0.5, 2)),
        }
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


def draw_bounds(
    rng: np.random.Generator, kind: str, family: Problem, theta: np.ndarray, unit: float
) -> tuple[float, float, str]:
    """Around the bulk of the records, narrow, wide, or in a tail."""
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
        rng,
        (0.005, 0.995),
        (0.02, 0.98),
        (0.001, 0.999),
        (0.1, 0.8),
        (0.3, 0.6),
        (1e-6, 1 - 1e-6),
        (0.97, 0.9999),
        (0.0005, 0.1),
    )
    a, b = float(law.ppf(low)), float(law.ppf(high))
    if kind in ("exponential", "gamma", "poisson", "geometric") and rng.random() < 0.6:
        a = 1.0 if kind == "geometric" else 0.0
    if rng.random() < 0.1:
        b = b + 5 * (b - a)
    if kind in ("poisson", "geometric"):
        a, b = (
            math.floor(a),
            min(math.floor(a) + 1500, max(math.ceil(b), math.floor(a) + int(rng.integers(1, 6)))),
        )
        return (
            float(max(a, 1 if kind == "geometric" else 0)),
            float(b),
            pick(rng, "clamp", "redact"),
        )
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


def draw_noise(
    rng: np.random.Generator, kind: str, ranges: list[float], whole: bool, epsilon: float
) -> Problem:
    """Laplace noise of scale (sum of the ranges)/epsilon on every statistic, or normal noise;
    realistic or coarse steps.
    """
    scale = [r * len(ranges) / epsilon for r in ranges]
    noise: Problem = {"kind": kind, "scale": scale}
    if kind.startswith("discrete"):
        coarse = rng.random() < 0.4
        if whole:
            step = pick(rng, 2.0, 3.0, 5.0, 0.5) if coarse else 1.0
            noise["step"] = [step] * len(ranges)
        else:
            parts = pick(rng, 2, 3, 5, 7.5, 20, 100, 1000)
            noise["step"] = [
                r / parts if coarse else 2.0 ** math.ceil(math.log2(r) - 20) for r in ranges
            ]
    return noise


def add_noise(rng: np.random.Generator, noise: Problem, sums: np.ndarray) -> list[float]:
    """The released values, on the lattice of the noise where it has one."""
    out = []
    for j, total in enumerate(sums):
        z = (
            rng.normal(0, noise["scale"][j])
            if "gaussian" in noise["kind"]
            else rng.laplace(0, noise["scale"][j])
        )
        out.append(float(on_lattice(noise, j, total + z)))
    return out


def on_lattice(noise: Problem, j: int, value: float) -> float:
    return (
        value
        if "step" not in noise
        else noise["step"][j] * math.floor(value / noise["step"][j] + 0.5)
    )


def simulate(rng: np.random.Generator, problem: Problem, theta: np.ndarray, n: int) -> np.ndarray:
    """The sums of n records' contributions."""
    if problem["family"].get("unknown") == "both":
        t, p = plane_records.record_law(problem, theta)
    else:
        law = records.record_law(problem, coordinate_of(problem).of(theta))
        t, p = law.t[0][:, None], law.p[0]
    p = np.maximum(p, 0)
    return rng.multinomial(n, p / p.sum()) @ t


def adversarial(
    rng: np.random.Generator, problem: Problem, low: np.ndarray, high: np.ndarray, n: int
) -> tuple[list[float], str]:
    """Statistics that the model did not make: beyond what n records can reach, on its edges, of
    another n.
    """
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
    kind = KINDS[
        int(np.searchsorted(np.cumsum(SHARES), (number * 149 + 7) % sum(SHARES), side="right"))
    ]
    n, epsilon, noise_kind = draw_n(rng), draw_epsilon(rng), pick(rng, *NOISES)
    if kind == "categorical":
        return draw_categorical(rng, n, epsilon, noise_kind)
    unit = log_uniform(rng, 0.2, 300) if kind == "poisson" else log_uniform(rng, 1e-3, 1e3)
    centre = unit * pick(rng, 0.0, 0.0, 1.0, -3.0, 50.0)
    family = draw_family(rng, kind, unit, centre)
    prior = draw_prior(rng, kind, unit, centre)
    theta = draw_theta(rng, prior)
    problem: Problem = {
        "family": family,
        "prior": prior,
        "n": n,
        "count": None,
        "n_prior": None,
        "coordinates": "plain",
    }
    problem["bounds"] = None if kind == "bernoulli" else draw_bounds(rng, kind, family, theta, unit)
    if kind == "both" and rng.random() < 0.7:
        problem["coordinates"] = "standardised"
    whole = kind in ("bernoulli", "poisson", "geometric")
    if kind == "both":
        low, high = plane_records.statistic_ranges(problem)
    else:
        low, high = (np.array([value]) for value in records.statistic_range(problem))
    problem["noise"] = draw_noise(rng, noise_kind, list(high - low), whole, epsilon)
    problem["statistic"] = add_noise(rng, problem["noise"], simulate(rng, problem, theta, n))
    problem["how"] = "from the prior"
    if rng.random() < 0.25:
        problem["statistic"], problem["how"] = adversarial(rng, problem, low, high, n)
    if kind != "both" and rng.random() < 0.22:
        hide_n(rng, problem, n, noise_kind, epsilon)
    return problem


def hide_n(
    rng: np.random.Generator, problem: Problem, n: int, noise_kind: str, epsilon: float
) -> None:
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
        problem["n_prior"] = {
            "kind": "gamma",
            "shape": shape,
            "rate": shape / max(n, 1) * log_uniform(rng, 0.7, 1.4),
        }


def draw_categorical(rng: np.random.Generator, n: int, epsilon: float, noise_kind: str) -> Problem:
    k = int(rng.integers(2, 5))
    concentration = [log_uniform(rng, 0.05, 30) for _ in range(k)]
    noise: Problem = {"kind": noise_kind, "scale": [2 / epsilon] * k}
    if noise_kind.startswith("discrete"):
        noise["step"] = [1.0] * k
    problem: Problem = {
        "family": {"kind": "categorical", "k": k},
        "prior": {"kind": "dirichlet", "concentration": concentration},
        "n": n,
        "count": None,
        "n_prior": None,
        "bounds": None,
        "coordinates": "plain",
        "noise": noise,
        "how": "from the prior",
    }
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
            f"{v:.4g}" if isinstance(v, float) else str(v)
            for k, v in values.items()
            if k not in ("kind", "unknown", "k")
        )

    family, prior, noise = problem["family"], problem["prior"], problem["noise"]
    name = family["kind"] if family["kind"] != "normal" else f"normal-{family['unknown']}"
    known = numbers(family)
    where = "" if problem["bounds"] is None else " {2}[{0:.4g}, {1:.4g}]".format(*problem["bounds"])
    if problem["coordinates"] == "standardised":
        where += " standardised"
    hyper = (
        numbers(prior)
        if "concentration" not in prior
        else ", ".join(f"{c:.3g}" for c in prior["concentration"])
    )
    size = f"n={problem['n']:.4g}" if problem["n"] is not None else "n=?"
    if problem["count"] is not None:
        size = f"n~{problem['count']['value']:.6g}+-{problem['count']['noise']['scale'][0]:.3g}"
    if problem["n_prior"] is not None:
        size += f" n_prior({numbers(problem['n_prior'])})"
    step = f" step {noise['step'][0]:.3g}" if "step" in noise else ""
    y = ", ".join(f"{value:.6g}" for value in problem["statistic"])
    scales = ", ".join(f"{value:.3g}" for value in noise["scale"][:2])
    return (
        f"{name}({known}) ~ ({hyper}){where} {size} {noise['kind']}({scales}{step}) y={y} "
        f"[{problem['how']}]"
    )


def kind_of(problem: Problem) -> str:
    family = problem["family"]
    return str(family["unknown"] if family["kind"] == "normal" else family["kind"])
