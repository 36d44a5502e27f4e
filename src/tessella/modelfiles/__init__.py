"""Models told in text files."""
