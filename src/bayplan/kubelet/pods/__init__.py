"""The pods of a node from the first sync to the last trace: workers, runtime, relist, probes, hooks, status."""
