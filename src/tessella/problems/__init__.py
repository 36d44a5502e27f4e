"""Problems: records that say what may be set and build a model; found by name in the registry."""
