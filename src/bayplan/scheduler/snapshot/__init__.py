"""What the scheduler knows of the cluster, as columns: one row per node, NumPy arrays, dictionary-encoded sets.

Everything that a plugin may look at lives here and is kept up to date row by row. Nothing here decides anything, and
nothing here imports the framework, plugins, `client` or `informers`.
"""
