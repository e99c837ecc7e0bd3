"""Sensitivity, lattice, noise and privacy arithmetic: no records, no files."""
