"""Models given as tables: rows ``P(. | s, a)``, and the builders that make them."""
