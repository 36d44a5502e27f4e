"""Ranges that the problems of the package share.

Where nothing in a problem ends a range, it ends far beyond use: a form can draw a slider from end
to end, and a slip of the keyboard is refused.
"""

SIZE = {"low": 0, "high": 1_000_000}  # of an axis, or of a random quantity
MEAN = {"low": 0.0, "high": 1000.0}  # of demand or arrivals in a period
SLOPE = {"low": -1000.0, "high": 1000.0}  # what adds to such a mean
PRICE = {"low": 0.0, "high": 1e6}  # of a unit or of an event
CHANCE = {"low": 0.0, "high": 1.0}
DISCOUNT = {"low": 0.0, "below": 1.0}
