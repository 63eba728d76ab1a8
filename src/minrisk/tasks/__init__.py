"""The job of each command and call: from its options to the inputs and stages of a run.

A command and the Python call of the same name fill the same dataclasses and get their `Job` from
the same function here; `minrisk.run.driver` runs it.
"""
