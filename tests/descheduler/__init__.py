"""The descheduler's decisions, without a cluster."""
