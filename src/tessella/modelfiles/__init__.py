"""Models described in text files."""
