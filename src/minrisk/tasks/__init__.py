"""What can be done with a corpus: a file for each task.

It has the options of the task, their `Job` (the inputs and stages of a run), and the Python call.
The command of the same name fills the same options; `minrisk.run.driver` runs the job.
"""
