"""A second scheduler: small, slow and one node at a time, written from what Kubernetes documents of each plugin.

What the columnar one decides is compared with it.
"""
