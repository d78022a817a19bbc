"""Verbs that ask: about a live cluster, a snapshot, or a workload over time."""
