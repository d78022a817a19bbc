"""Answers about clusters that need no cluster: copies of clusters, placement questions, and whole clusters in virtual time.

What is here asks the components (the scheduler above all) and never decides anything itself. Nothing here is needed to
run a cluster, and no component imports it.
"""
