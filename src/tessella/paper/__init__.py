"""The paper's study, on top of the runner.

paper_study   the paper's eleven problems, methods, sizes and seeds   published
results       records with their exact solutions                      statistics, derived_numbers
outputs       tables, figures, report                                 table, figures/, report
reproduce     all of it, in this order; ``tessella paper``            source_hash
"""
