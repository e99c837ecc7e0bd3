"""Evidence for the methodologist: calibration, utility, and the paper's experiments."""

from noisewise.study.calibrate import Calibration, Comparison, calibrate, compare

__all__ = ["Calibration", "Comparison", "calibrate", "compare"]
