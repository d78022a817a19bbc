"""Requests that make no sense, sent to a whole cluster: `make fuzz`."""
