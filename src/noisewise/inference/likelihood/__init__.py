"""The likelihood of noisy sums: under a normal approximation, and exact."""
