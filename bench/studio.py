"""How soon the curve of the studio's Plan page answers a slider, one move after another.

For every family of one parameter, and for every place of both sliders: the time from request to
answer, which holds the words and the drawing.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from starlette.testclient import TestClient
from threadpoolctl import threadpool_limits

from noisewise.studio.app import make_app, warm_up
from noisewise.studio.families import CHOICES
from noisewise.studio.plan_form import EPSILONS, SIZES
from noisewise.studio.security import Keys
from noisewise.studio.workers import Workers


def main() -> None:
    keys = Keys(4711)
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        site, guard = make_app(Path(folder), keys, Workers(eager=False))
        client = TestClient(guard, base_url=f"http://127.0.0.1:{keys.port}")
        client.get(keys.link)
        warm_up(site)
        for choice in (one for one in CHOICES if one.quick):
            for outside in ("clamp", "redact") if choice.lower else ("",):
                asked = {"family": choice.text, "truth": choice.truth, "outside": outside}
                asked |= {"lower": choice.lower, "upper": choice.upper}
                for slider, steps in (("size", SIZES), ("cost", EPSILONS)):
                    times = [seconds(client, asked | {slider: str(j)}) for j in range(len(steps))]
                    print(
                        f"{choice.text:12} {outside:7} {slider:5} median "
                        f"{1000 * np.median(times):4.0f} ms, most {1000 * max(times):4.0f} ms"
                    )


def seconds(client: TestClient, asked: dict[str, str]) -> float:
    begin = time.perf_counter()
    answer = client.get("/plan/curve", params=asked)
    assert "<svg" in answer.text, answer.text
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
