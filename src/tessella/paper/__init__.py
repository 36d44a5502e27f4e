"""The paper's study, built on the runner.

published   the paper's problems, methods, sizes, seeds and printed numbers
results     records with their exact solutions                  derived_numbers
report      tables, figures and the report                      table, claims, limits, figures
reproduce   all of it, in this order; ``tessella paper``
"""
