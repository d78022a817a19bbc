"""StatefulSets in a live cluster."""
