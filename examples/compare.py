"""The posterior of the mean waiting time's rate three ways: noise-aware, naive, and from the
records themselves.

Only this demonstration may look at the records: they are invented (examples/make_visits.py).
Run: python examples/compare.py demo/wait.release.json demo/compare.svg
"""

import csv
import sys

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.report.plots import COLOURS, draw_density, figure

release = noisewise.load(sys.argv[1])
prior = priors.Gamma(shape=2, rate=20)
with open("examples/visits.csv") as file:
    waits = [float(row["wait"]) for row in csv.DictReader(file) if row["wait"].strip()]
# Noise far below a lattice step and bounds beyond every record: the non-private posterior, by the
# same code.
truth = noisewise.observe(
    family=families.Exponential(),
    n=len(waits),
    statistic=sum(waits),
    noise=noise.Laplace(1e-3),
    bounds=Bounds(0, 10_000, outside="clamp"),
)
posteriors = {
    "from the records": noisewise.infer(truth, prior),
    "noisewise, from the release": noisewise.infer(release, prior),
    "naive, from the release": noisewise.infer(release, prior, method="naive"),
}
made, ((axis,),) = figure(1, 1)
made.set_size_inches(7.5, 4.2)
for (label, posterior), colour in zip(posteriors.items(), COLOURS, strict=False):
    draw_density(axis, posterior, "rate", colour, label)
    low, high = posterior.interval("rate", 0.9)
    print(
        f"{label:28s} mean wait {1 / posterior.mean('rate'):6.2f} min, 90 % interval "
        f"{1 / high:.2f} to {1 / low:.2f}"
    )
axis.set_xlabel("rate (per minute)")
axis.set_ylabel("posterior density (minutes)")
axis.set_ylim(top=axis.get_ylim()[1] * 1.35)
axis.legend(frameon=False, loc="upper left", fontsize=8)
made.savefig(sys.argv[2])
print(f"wrote {sys.argv[2]}")
