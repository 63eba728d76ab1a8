"""The tasks for a corpus, one file each.

A file has the options of the task, the `Job` (inputs and stages of a run), and the Python call. The
command of the same name fills the same options; `minrisk.run.driver` runs the job.
"""
