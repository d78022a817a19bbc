"""Verbs that run clusters, in the foreground and in the background, and what they share."""
