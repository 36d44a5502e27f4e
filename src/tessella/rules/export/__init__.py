"""A rule as something that a system runs: one format per file, all reading its rule tree."""
