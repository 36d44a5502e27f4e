"""What several test files share: random models, and exact answers."""
