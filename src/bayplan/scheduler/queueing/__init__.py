"""The scheduling queue: which pod is next, which wait, for which event, and what happened meanwhile."""
