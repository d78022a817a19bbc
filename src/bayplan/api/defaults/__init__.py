"""What Kubernetes fills in when the user left it out: parts that several kinds share. Functions change the freshly
decoded object in place and are idempotent.

Rules of one kind alone stand in its strategy.
"""
