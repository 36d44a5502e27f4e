"""The explorer: a local page on which a model is changed, solved, looked at and compressed."""
