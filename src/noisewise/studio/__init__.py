"""`noisewise studio`: planning, releasing and looking in a browser, on this machine alone."""
