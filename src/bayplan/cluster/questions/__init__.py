"""Questions to the scheduler of a running cluster about pods that are not there."""
