"""The model layer: states, actions, what happens in one period, and ways to write it down."""
