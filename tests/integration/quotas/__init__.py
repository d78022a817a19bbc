"""Resource quotas in a live cluster."""
