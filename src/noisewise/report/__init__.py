"""Pictures and tables of posteriors and studies."""
