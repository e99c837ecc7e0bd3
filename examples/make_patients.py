"""Make the example table of several columns: 2000 invented patients, about 3 % of them without a
blood pressure. Run: python examples/make_patients.py
"""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(20260)
n = 2000
age = np.clip(rng.gamma(9.0, 6.0, n), 18, 99).round()
sex = rng.choice(["f", "m"], n, p=[0.54, 0.46])
ward = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
smoker = np.where(rng.random(n) < 0.15 + 0.1 * (sex == "m"), "yes", "no")
bp = 102 + 0.45 * age + 4.0 * (sex == "m") + 5.0 * (smoker == "yes") + rng.normal(0, 13, n)
known = rng.random(n) > 0.03

lines = ["age,sex,ward,smoker,bp"]
for k in range(n):
    pressure = f"{bp[k]:.0f}" if known[k] else ""
    lines.append(f"{age[k]:.0f},{sex[k]},{ward[k]},{smoker[k]},{pressure}")
(Path(__file__).parent / "patients.csv").write_text("\n".join(lines) + "\n")
