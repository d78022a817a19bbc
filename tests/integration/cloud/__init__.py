"""The simulated cloud of a live cluster."""
