"""Several columns: their moments as coordinates, what a model says of them, and a sampler."""
