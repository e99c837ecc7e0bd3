"""The only code that touches records: read, bound, sum, spend, add noise, publish.

Nothing that depends on a record's value leaves this package except through the noise: no exception,
message, log line, count or exit status.
"""
