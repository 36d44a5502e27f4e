"""Problems: records of what may be set that build a model; the registry has them by name."""
