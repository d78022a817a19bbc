"""The descheduler in a whole cluster."""
