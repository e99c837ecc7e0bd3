"""Attack every kind of release: a lower bound on the privacy that is really spent, beside what is
declared.

Every built-in family, rule for records outside the bounds, neighbouring relation (also of groups
whose sizes are released, where a record may move from one to another) and kind of noise, and the
choice of private bounds. A bound holds with confidence 99.99 %, so that a false alarm in one table
of about 100 is to be expected.

Run: python bench/audit.py [runs], or make audit
"""

import sys

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track

from noisewise import Bounds, PrivateBounds, families
from noisewise.curator.audit import RUNS, audit
from noisewise.model.family import Family

BOUNDED = [
    (families.Exponential(), (0.5, 9)),
    (families.Poisson(), (2, 9)),
    (families.Geometric(), (1, 9)),
    (families.Gamma(shape=2.5), (5, 10)),
    (families.Normal(), (-2, 6)),
    (families.Normal(variance=2.0), (3, 6)),
    (families.Normal(mean=1.0), (-2, 6)),
    (families.LogNormal(), (0.5, 40)),
    (families.Gamma(), (0.5, 9)),
    (families.Beta(), (0.05, 0.9)),
    (families.NegativeBinomial(size=2.5), (2, 9)),
    (families.Binomial(trials=12), (2, 9)),
    (families.Weibull(shape=1.7), (0.5, 9)),
    (families.Pareto(minimum=2), (3, 40)),
]


PRIVATE = [
    (families.Poisson(), PrivateBounds(0, 30, epsilon=2, outside="clamp")),
    (families.Normal(), PrivateBounds(-50, 50, epsilon=2, outside="clamp")),
    (
        families.Geometric(),
        PrivateBounds(1, 30, epsilon=2, quantiles=(0.9, 0.99), outside="redact"),
    ),
]


Setting = tuple[Family, Bounds | PrivateBounds | None, str, dict[str, float]]


def settings() -> list[Setting]:
    cases: list[tuple[Family, Bounds | PrivateBounds | None]] = [(families.Bernoulli(), None)]
    cases.append((families.Categorical(["a", "b", "c"], other="c"), None))
    cases += [
        (family, Bounds(*limits, outside=outside))
        for family, limits in BOUNDED
        for outside in ("redact", "clamp")
    ]
    costs: list[dict[str, float]] = [{"epsilon": 4}, {"rho": 2}]
    fixed = [
        (*case, neighbours, cost)
        for case in cases
        for neighbours in ("replace_one", "add_remove", "move")
        for cost in costs
    ]
    return [
        (*case, neighbours, {}) for case in PRIVATE for neighbours in ("replace_one", "add_remove")
    ] + fixed


def attacked(setting: Setting, runs: int) -> tuple[bool, str]:
    family, bounds, neighbours, cost = setting
    relation = {"sizes": "released"} if neighbours == "move" else {"neighbours": neighbours}
    found = audit(family, bounds=bounds, runs=runs, **relation, **cost)
    known = "".join(
        f" {key} {value:g}" for key, value in family.describe().items() if isinstance(value, float)
    )
    rule = "" if bounds is None else f" {bounds.outside} [{bounds.lower:g}, {bounds.upper:g}]"
    rule = (
        f" bounds in [{bounds.lower:g}, {bounds.upper:g}]"
        if isinstance(bounds, PrivateBounds)
        else rule
    )
    line = (
        f"{family.kind + known + rule:42s} {neighbours:12s} {found.declared!s:14s} at least "
        f"{found.bound:.3f}"
    )
    return found.kept, f"{line}  {'pass' if found.kept else 'FAIL'}  by {found.attack}"


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    every, broken = settings(), 0
    title = f"{len(every)} settings, {runs} releases of both tables"
    lines = Parallel(n_jobs=-1, return_as="generator")(
        delayed(attacked)(setting, runs) for setting in every
    )
    for kept, line in track(lines, title, total=len(every), console=Console(stderr=True)):
        broken += not kept
        print(line, flush=True)
    print(f"{len(every)} settings, {broken} spend more than they declare")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
