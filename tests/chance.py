"""How often a statistical test of a right program may fail."""

FALSE_ALARM = 1e-6
