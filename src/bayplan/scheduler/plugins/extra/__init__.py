"""Plugins that kube-scheduler does not have: what documents ask schedulers to weigh. One per file; none is in the default profile."""
