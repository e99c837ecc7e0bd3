"""Simulation with synthetic records: is a posterior calibrated, and what does it cost? Never touches the curator."""
