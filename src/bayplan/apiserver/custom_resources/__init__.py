"""Serving what CustomResourceDefinitions define: their conditions, the table of kinds and the caches that follow them, and the end of their objects.

Kubernetes has this in a server of its own (`apiextensions-apiserver`); here they are rules that the server keeps up.
"""
