"""Studies: any problems, methods and measures, run on one machine or many.

study       Study: which runs, as Specs, in which Batches           record, methods/
run         Spec -> Record: train, then score against the optimum   record
dispatch    batches to workers, results into the Store              worker, store
run_study   all of it, with progress, as StudyResults               progress
"""
