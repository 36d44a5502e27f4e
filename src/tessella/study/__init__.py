"""The paper's study, and others like it.

plan        Study: which runs, as Specs, in which Batches          spec, methods/
run         Spec -> Record: train, judge against the optimum      record, judge, context
sweep       batches over a cluster, one by one into the Store      cluster, store, folder
results     records with their exact solutions                     statistics, measures
outputs     tables, figures, report                                table, figures/, report
reproduce   all of it, in this order; ``tessella paper``           progress
"""
