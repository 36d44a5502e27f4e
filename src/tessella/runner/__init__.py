"""Studies: any problems, methods and measures, run on one machine or many.

study       Study: which runs, as Specs, in which Batches      spec, names, measure, methods/
run         Spec -> Record: train, score against the optimum   record, score, run_context
dispatch    batches to workers, one by one into the Store      cluster, shipping, store, folder
run_study   all of it, shown as it goes                        progress, rich_progress, throughput
results     StudyResults: records, and a table of them         parquet
"""
