"""Small rules with a certified loss: classes of rules, and the search for the smallest one."""
