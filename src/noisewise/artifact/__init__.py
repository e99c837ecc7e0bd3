"""The release: the one thing that crosses from the curator to the analyst. `release` is the value,
`privacy` what it cost, `wire` its JSON, `published` what other tools published.
"""

from noisewise.artifact.privacy import WHERE, Privacy, person
from noisewise.artifact.published import observe_mean
from noisewise.artifact.release import NoisyCount, Release, observe
from noisewise.artifact.wire import checksum, load, load_many, parse, rehearse_file
from noisewise.mechanism.lattice import Coordinates

__all__ = [
    "WHERE",
    "Coordinates",
    "NoisyCount",
    "Privacy",
    "Release",
    "checksum",
    "load",
    "load_many",
    "observe",
    "observe_mean",
    "parse",
    "person",
    "rehearse_file",
]
