"""Make the example table: 2000 invented visits to an emergency department. Run: python
examples/make_visits.py
"""

import csv
from pathlib import Path

import numpy as np

WAYS = ["walk-in", "ambulance", "referral"]


def main() -> None:
    rng = np.random.default_rng(20260101)
    n = 2000
    wait = rng.exponential(14.0, n)  # minutes
    pressure = rng.normal(128.0, 17.0, n)  # mmHg
    earlier = rng.poisson(0.8, n)
    readmitted = rng.random(n) < 0.11
    arrival = rng.choice(WAYS, n, p=[0.62, 0.25, 0.13])
    with open(Path(__file__).parent / "visits.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["wait", "pressure", "earlier_visits", "readmitted", "arrival"])
        for i in range(n):
            measured = "" if rng.random() < 0.01 else f"{pressure[i]:.0f}"
            writer.writerow(
                [
                    f"{wait[i]:.1f}",
                    measured,
                    earlier[i],
                    str(bool(readmitted[i])).lower(),
                    arrival[i],
                ]
            )


if __name__ == "__main__":
    main()
