"""A rule as something that a system runs: one target per file, all reading its rule tree."""
