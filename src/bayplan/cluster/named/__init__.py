"""Clusters that run in the background of this machine, each by its name."""
