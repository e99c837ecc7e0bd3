"""Observations for the methodologist: calibration, utility, and the paper's experiments."""

from noisewise.study.calibrate import Calibration, calibrate
from noisewise.study.compare import Comparison, compare

__all__ = ["Calibration", "Comparison", "calibrate", "compare"]
