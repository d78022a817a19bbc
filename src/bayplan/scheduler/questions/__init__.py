"""Questions to a running scheduler about pods that are not there: where would they go, and why, or what keeps them from it.

`manifests` makes pods of what is asked about, `asking` has the scheduler's own cycles decide about them, `answers` says what came of it. Nothing is written
anywhere, and the scheduler's picture of the cluster is as before when the answer is there. What holds HTTP, pipes or rights must not come here.
"""
