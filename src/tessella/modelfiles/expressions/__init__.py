"""Arithmetic in model files: a closed grammar, parsed here and never run as Python."""
