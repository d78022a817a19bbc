"""Disruption budgets in a live cluster."""
