"""The share of smokers in each ward three ways: the posterior; the noisy counts as if they were
true; and the records, which nobody outside may see.

Run: python examples/table.py RELEASE PICTURE
"""

import sys
from pathlib import Path

import numpy as np
import pandas
from three_ways import Answer, show

import noisewise

release, picture = noisewise.load(sys.argv[1]), sys.argv[2]
posterior = noisewise.infer(release, "weak", seed=1)
wards = ["a", "b", "c"]


def of_counts(yes: np.ndarray, no: np.ndarray) -> dict[str, Answer]:
    share, n = yes / (yes + no), yes + no
    error = 1.645 * np.sqrt(share * (1 - share) / n)
    every = zip(wards, share, error, strict=True)
    return {f"ward {ward}": (p, p - e, p + e) for ward, p, e in every}


own = {}
for ward in wards:
    share = posterior.share("smoker", given={"ward": ward})
    own[f"ward {ward}"] = (share.mean[1], *(end[1] for end in share.interval(0.9)))
no, yes = np.array(release.statistic).reshape(2, 3)
table = pandas.read_csv(Path(__file__).parent / "patients.csv")
counts = pandas.crosstab(table["smoker"], table["ward"])[wards]
show(
    {
        "posterior": own,
        "noisy counts taken for true": of_counts(yes, no),
        "the records themselves": of_counts(
            counts.loc["yes"].to_numpy(), counts.loc["no"].to_numpy()
        ),
    },
    "share of smokers",
    picture,
)
print(posterior.odds_ratio("ward", "smoker"))
