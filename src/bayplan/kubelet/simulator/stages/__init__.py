"""Stages of kwok: what happens to simulated objects, as users describe it."""
