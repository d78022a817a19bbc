"""What goes wrong in a virtual cluster: plans, trials, and transports that fail, lag and reorder as a seed says."""
