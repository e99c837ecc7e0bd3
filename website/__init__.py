"""The site of docs/: `python -m website.build`."""
