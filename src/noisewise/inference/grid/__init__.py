"""Posteriors of one and of two parameters on grids that follow them."""
