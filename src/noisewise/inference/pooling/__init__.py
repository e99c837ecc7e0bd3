"""Partial pooling of many groups, by quadrature."""
