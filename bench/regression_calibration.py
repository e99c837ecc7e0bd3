"""Are regressions calibrated? Truths and covariate moments from the prior; and, with covariates and
errors of real shapes, how often 90 % intervals cover.

`calibration`: n x epsilon x covariates x kind of noise, every coefficient and sigma; then all
trials of one n, one epsilon, one kind of noise, one number of covariates together. Of all lines
together, one run in a hundred of a calibrated method has a false alarm: the limits of KS and of the
mean and the variance of z = Phi^-1(U) share that 1 % evenly.

`shapes`: uniform, skewed, rare (5 %) and correlated (0.95) covariates, and errors that are not
normal. Coverage of 90 % intervals between 86 and 94 %, but for trials of which the certificate said
that the covariates' moments are mostly prior, or that outcomes may have been left out. Intervals
that are too wide fail like those that are too narrow. All of it at one truth, and within bounds
that may cut outcomes off.

`drawn`: the same covariates and errors, coefficients and sigma from the prior, and no outcome is
cut off; the same limits. What `shapes` shows beyond this is what its one truth and its bounds do.

`spread`: as `calibration`, two numbers, coverage by how much the first truly varies. A method with
a prior covers 90 % on average over it, not at every truth: one shape of a covariate is one truth.

Run: python bench/regression_calibration.py [calibration|shapes|drawn|spread] [--trials 1000]
[--jobs 2] [--only TEXT]. Stop it and start it again, with more trials if you like: finished chunks
are kept in bench/data and not done again.
"""

import argparse
import itertools
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import Progress
from scipy import special, stats

from noisewise import NoisyCount, Release, families, noise, regress_many
from noisewise.mechanism.products import sizes_of
from noisewise.mechanism.products_sensitivity import products_sensitivity
from noisewise.mechanism.ruler import TOP
from noisewise.model.column_priors import Linear
from noisewise.study import engine
from noisewise.study.regressions import OUTCOME, UNIT, RegressionSetting, truth, uniforms

FOLDER = Path(__file__).parent / "data"
SIZES, EPSILONS = (10, 30, 100, 1000, 10**5), (0.1, 1.0, 10.0)
FACTORS = ((2,), (3,), (3, 2))
"""Levels of the factors, in turn, of the settings that have any."""
FALSE_ALARM = 0.01
CHUNK = 100
LEAST, MOST = 0.86, 0.94


def law(family, epsilon, kind):
    """The noise of a release at epsilon, or of normal noise at rho = epsilon^2/2."""
    size = products_sensitivity(*sizes_of(family), TOP).pair
    if kind == "laplace":
        return noise.Laplace(size.l1 / TOP / epsilon)
    return noise.Gaussian(float(np.sqrt(size.l2_squared)) / TOP / epsilon)


def settings():
    out = {}
    every = itertools.product(SIZES, EPSILONS, ("laplace", "normal"))
    for turn, (n, epsilon, kind) in enumerate(every):
        factors = FACTORS[(turn + n % 3) % len(FACTORS)]
        said = " and ".join(map(str, factors))
        for name, numbers, levels in (
            ("1 number", 1, ()),
            (f"1 number and factors of {said}", 1, factors),
            ("4 numbers", 4, ()),
        ):
            plain = RegressionSetting(n, noise.Laplace(1.0), numbers, levels)
            own = RegressionSetting(n, law(plain.family, epsilon, kind), numbers, levels)
            out[f"{name}, n={n}, epsilon={epsilon:g}, {kind}"] = own
    return out


def prior_chunk(setting, trials, rng):
    return uniforms(setting, trials, rng)


SHAPES = {
    "uniform": lambda rng, n: rng.uniform(-0.8, 0.8, n),
    "skewed": lambda rng, n: np.minimum(rng.exponential(0.25, n), 1.9) - 0.95,
    "rare": lambda rng, n: 1.0 * (rng.random(n) < 0.05),
    "correlated": None,
}
ERRORS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t4": lambda rng, n: rng.standard_t(4, n) / np.sqrt(2),
    "skewed": lambda rng, n: rng.exponential(size=n) - 1,
}
TOLD = ("mostly prior", "did not count")
"""What the certificate says where an interval may not cover."""
TOLD_OF_SIGMA = (*TOLD, "lean on their prior")
"""The same of sigma."""
SLOPES, SIGMA, SMALL = (0.1, 0.3, -0.2), 0.15, 0.06
"""With the larger sigma some outcomes of long-tailed errors lie outside; with the small one, none
of 10^4.
"""


@dataclass(frozen=True)
class Shaped:
    """Records of one shape: y = 0.1 + 0.3 a - 0.2 b + sigma e within [-1, 1]; b is uniform, or
    correlated with a. What lies outside is not kept.
    """

    shape: str
    errors: str
    n: int
    epsilon: float
    sigma: float = SIGMA

    @property
    def family(self):
        return family_of(self.shape)

    def release(self, rng):
        n = self.n
        a, b = covariates(self.shape, n, rng)
        y = SLOPES[0] + SLOPES[1] * a + SLOPES[2] * b + self.sigma * ERRORS[self.errors](rng, n)
        kept = (np.abs(y) <= 1) & (np.abs(a) <= 1)
        return released(self.family, n, [y, a, b], kept, self.epsilon, rng)


def family_of(shape):
    columns = {OUTCOME: UNIT, "a": ["0", "1"] if shape == "rare" else UNIT, "b": UNIT}
    return families.Moments(columns, less=0.5)


def covariates(shape, n, rng):
    """a of that shape, and b."""
    b = rng.uniform(-0.8, 0.8, n)
    if shape == "correlated":
        return 0.95 * b + np.sqrt(1 - 0.95**2) * rng.uniform(-0.8, 0.8, n), b
    return SHAPES[shape](rng, n), b


def released(family, n, columns, kept, epsilon, rng):
    sums = np.array([one[kept].sum() for one in family.statistic(columns)])
    own = law(family, epsilon, "laplace")
    noisy = sums + own.broadcast(sums.size).simulate(rng, 1)[0]
    count = kept.sum() + own.broadcast(1).simulate(rng, 1)[0, 0]
    return Release(
        family,
        n,
        tuple(noisy.tolist()),
        own.broadcast(sums.size),
        count=NoisyCount(float(count), own.broadcast(1)),
    )


def shapes():
    sizes = ((100, 10.0), (1000, 1.0), (1000, 10.0), (10_000, 0.3), (10_000, 3.0))
    shaped = [Shaped(shape, "normal", n, e) for shape in SHAPES for n, e in sizes]
    shaped += [
        Shaped("uniform", errors, n, e, sigma)
        for errors in ("t4", "skewed")
        for sigma in (SIGMA, SMALL)
        for n, e in sizes
    ]
    return {
        f"{s.shape}, {'small ' if s.sigma == SMALL else ''}{s.errors} errors, n={s.n}, "
        f"epsilon={s.epsilon:g}": s
        for s in shaped
    }


@dataclass(frozen=True)
class Drawn:
    """Records of one shape with coefficients and sigma from the prior; what puts the outcome's mean
    square outside the bounds is drawn anew, as the model has it, and all records count.
    """

    shape: str
    errors: str
    n: int
    epsilon: float

    @property
    def family(self):
        return family_of(self.shape)

    def release(self, rng):
        """A release, and its truths."""
        n, prior = self.n, Linear()
        while True:
            a, b = covariates(self.shape, n, rng)
            beta = prior.sd * rng.standard_normal(3)
            sigma = float(np.sqrt(prior.scale / rng.standard_gamma(prior.shape)))
            y = beta[0] + beta[1] * a + beta[2] * b + sigma * ERRORS[self.errors](rng, n)
            if (y**2).mean() <= 1:
                break
        every = np.ones(n, dtype=bool)
        return released(self.family, n, [y, a, b], every, self.epsilon, rng), (*beta, sigma)


def drawn():
    sizes = ((100, 1.0), (100, 10.0), (1000, 1.0), (1000, 10.0), (10_000, 0.3), (10_000, 3.0))
    kinds = [(shape, "normal") for shape in SHAPES] + [("uniform", "t4"), ("uniform", "skewed")]
    return {
        f"{shape}, {errors} errors, n={n}, epsilon={e:g}": Drawn(shape, errors, n, e)
        for shape, errors in kinds
        for n, e in sizes
    }


def drawn_chunk(setting, trials, rng):
    """As `shape_chunk`."""
    pairs = [setting.release(rng) for _ in range(trials)]
    releases, truths = zip(*pairs, strict=True)
    by_name = dict(zip(names_of(setting.shape), np.transpose(truths), strict=True))
    return located(list(releases), by_name, rng)


def spread():
    pairs = ((100, 10.0), (1000, 1.0), (10_000, 0.3), (1000, 10.0))
    out = {}
    for n, epsilon in pairs:
        plain = RegressionSetting(n, noise.Laplace(1.0), 2)
        out[f"n={n}, epsilon={epsilon:g}"] = replace(
            plain, noise=law(plain.family, epsilon, "laplace")
        )
    return out


def spread_chunk(setting, trials, rng):
    """U of every truth, and the true sd of the first covariate."""
    names, releases, truths, sds = ("intercept", *setting.on, "sigma"), [], [], []
    for _ in range(trials):
        beta, sigma, exact = truth(setting, rng)
        family, own = setting.family, setting.noise.broadcast(setting.family.dimension)
        noisy = exact + own.simulate(rng, 1)[0]
        releases.append(Release(family, setting.n, tuple(noisy.tolist()), own))
        truths.append([*beta, sigma])
        square = exact[len(family.numbers) + family.products.index((1, 1))] / setting.n
        sds.append(float(np.sqrt(square - (exact[1] / setting.n) ** 2)))
    by_name = dict(zip(names, np.transpose(truths), strict=True))
    return located(releases, by_name, rng, setting.on) | {"true sd": sds}


def shape_chunk(shaped, trials, rng):
    """U of every truth, and whether the certificate said that it is mostly prior, or that outcomes
    may have been left out.
    """
    releases = [shaped.release(rng) for _ in range(trials)]
    truths = zip(names_of(shaped.shape), (*SLOPES, shaped.sigma), strict=True)
    return located(releases, {name: np.full(trials, value) for name, value in truths}, rng)


def names_of(shape):
    return "intercept", "a[1]" if shape == "rare" else "a", "b", "sigma"


def located(releases, truths, rng, on=("a", "b")):
    """U of every truth, and what the certificate told."""
    found = regress_many(releases, OUTCOME, list(on), draws=400, seed=int(rng.integers(2**32)))
    out = {
        name: [one.cdf(name, value) for one, value in zip(found, values, strict=True)]
        for name, values in truths.items()
    }
    for key, sayings in (("told", TOLD), ("told of sigma", TOLD_OF_SIGMA)):
        out[key] = [float(any(say in one.certificate.sentence for say in sayings)) for one in found]
    return out


def run(kind, work, items, trials, jobs, seed):
    """U by setting and name."""
    folder = FOLDER / f"regression-{kind}-{seed}"
    engine.claim(folder, {"study": f"regression {kind}", "chunk": CHUNK, "seed": seed})
    chunks = {
        name: [
            engine.Chunk(f"{name} from {start}", work, (item, CHUNK))
            for start in range(0, trials, CHUNK)
        ]
        for name, item in items.items()
    }
    # the first chunk of every setting, then the second: a run that is stopped has looked at all
    every = [chunk for row in zip(*chunks.values(), strict=True) for chunk in row]
    with Progress() as bar:
        task = bar.add_task(f"{len(items)} settings", total=len(every))
        found = engine.run(every, folder, seed, jobs, report=lambda *_: bar.advance(task))
    return {
        name: {
            key: np.concatenate([found[chunk.key][key] for chunk in own])
            for key in found[own[0].key]
        }
        for name, own in chunks.items()
    }


def z_of(u):
    return special.ndtri(np.clip(u, 5e-4, 1 - 5e-4))


def together(found):
    """All trials that share one thing, by what they share and which of the truths it is."""
    out = {}
    for name, own in found.items():
        covariates, *shared = name.rsplit(", ", 3)
        shared.append("factors" if "factor" in covariates else covariates)
        slope = next(key for key in own if key not in ("intercept", "sigma"))
        # one slope of each trial: those of one trial hang together
        for key, kind in (("intercept", "intercept"), (slope, "slope"), ("sigma", "sigma")):
            for one in shared:
                out.setdefault((f"all with {one}", kind), []).append(own[key])
    return [(*key, np.concatenate(parts)) for key, parts in out.items()]


def judge(found):
    lines = [(name, key, u) for name, own in found.items() for key, u in own.items()]
    lines += together(found)
    level = FALSE_ALARM / (3 * len(lines))
    failed, worst = 0, np.zeros(3)
    for name, key, u in lines:
        z = z_of(u)
        figures = np.array(
            [
                stats.kstest(u, "uniform").statistic / stats.kstwo.isf(level, u.size),
                z.mean() * np.sqrt(u.size) / stats.norm.isf(level / 2),
                ((z**2).mean() - 1) * np.sqrt(u.size / 2) / stats.norm.isf(level / 2),
            ]
        )
        bad = np.abs(figures).max() >= 1
        failed += bad
        worst = np.maximum(worst, np.abs(figures))
        cover = ((u > 0.05) & (u < 0.95)).mean()
        print(
            f"{name:55s} {key:10s} KS {figures[0]:.2f}  z {figures[1]:+.2f}  z2 {figures[2]:+.2f} "
            f"of their limits; 90 % intervals cover {cover:.1%}  {'FAIL' if bad else 'pass'}"
        )
    ks, mean, square = worst
    print(
        f"{len(found)} settings, {len(lines)} lines, {failed} failed; worst KS {ks:.2f}, z "
        f"{mean:.2f}, z2 {square:.2f} of their limits (family-wise {FALSE_ALARM:.0%})"
    )
    return failed


def judge_shapes(found):
    failed = {"narrow": 0, "wide": 0}
    for name, own in found.items():
        for key, u in own.items():
            if key.startswith("told"):
                continue
            told = own["told of sigma" if key == "sigma" else "told"].astype(bool)
            covered = (u > 0.05) & (u < 0.95)
            silent = covered[~told]
            error = np.sqrt(0.09 / max(silent.size, 1))
            # sigma is not promised where errors are not normal
            asked = silent.size >= 50 and not (key == "sigma" and ", normal errors" not in name)
            verdict = "pass" if asked else ""
            for side, excess in (("narrow", LEAST - silent), ("wide", silent - MOST)):
                if asked and excess.mean() >= 3 * error:
                    verdict = f"FAIL: {side}"
                    failed[side] += 1
            said = f"{silent.mean():.1%}" if silent.size else "-"
            print(
                f"{name:50s} {key:10s} covers {covered.mean():.1%}; {told.mean():.0%} told, "
                f"the others cover {said}  {verdict}"
            )
    print(
        f"{len(found)} settings, {failed['narrow']} lines too narrow, {failed['wide']} too wide "
        "(86 to 94 %, and 3 standard errors of trials)"
    )
    return sum(failed.values())


def judge_spread(found):
    """Nothing fails: it shows where the 90 % come from."""
    print("covered in each fifth of the trials, from the least true sd of x0 to the largest:")
    for name, own in found.items():
        order = np.argsort(own["true sd"])
        for key, u in own.items():
            if key.startswith(("told", "true")):
                continue
            covered = (u > 0.05) & (u < 0.95)
            fifths = [f"{part.mean():6.1%}" for part in np.array_split(covered[order], 5)]
            print(f"{name:25s} {key:10s} {' '.join(fifths)}   all {covered.mean():.1%}")
    return 0


STUDIES = {
    "calibration": (settings, prior_chunk, judge),
    "shapes": (shapes, shape_chunk, judge_shapes),
    "drawn": (drawn, drawn_chunk, judge_shapes),
    "spread": (spread, spread_chunk, judge_spread),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="calibration", choices=STUDIES)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="settings whose title contains this")
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    every, work, judged = STUDIES[asked.what]
    items = {name: item for name, item in every().items() if asked.only in name}
    found = run(asked.what, work, items, asked.trials, asked.jobs, asked.seed)
    failed = judged(found)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes this time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
