"""Simulated nodes as such: registered, reported, grouped, short of memory; their addresses and images."""
