"""How plugins plug in: extension points, verdicts, cycle state and profiles.

The framework knows the snapshot and no plugin. It must not import plugins, the queue, `client` or `informers`.
"""
