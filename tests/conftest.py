"""Shared fixtures: a generator seeded from the test's own name, and the false-alarm rate of every
statistical test.
"""

import hashlib

import numpy as np
import pytest

FALSE_ALARM = 1e-6


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    digest = hashlib.sha256(request.node.nodeid.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))
