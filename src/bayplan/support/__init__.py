"""What every other package may lean on: clock, randomness, timestamps, supervised tasks, logging, metrics, progress.

Time and chance enter the program here and nowhere else, so that a simulation can replace both. Nothing in this package
knows Kubernetes' objects, and it imports no other package of Bayplan.
"""
