"""Nodes: simulated ones, of which one service plays thousands (`simulator`).

A node reads the pods that are bound to it and writes their status; it never schedules and never talks to anything but the API.
"""
