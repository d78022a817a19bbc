"""Explanations: why a pod does not run, a workload has no pods, a claim is not bound, or a node takes no pods.

Everything is read from a copy of a cluster: specs, statuses, and events if the copy has them. An explanation is short:
the answer, why, and what to do. Where a pending pod fits is the scheduler's to say; that is not here.
"""
