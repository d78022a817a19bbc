"""DaemonSets in a live cluster."""
