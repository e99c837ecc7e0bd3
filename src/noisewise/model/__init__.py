"""Mathematics of exponential families: no records, no files, no noise."""
