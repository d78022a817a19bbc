"""The CPUs of a node: which are given to whom, and how they are chosen."""
