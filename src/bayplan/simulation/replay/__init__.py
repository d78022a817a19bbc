"""Workloads over time, placed by the scheduler itself in virtual time: traces, runs, comparisons, figures and reports."""
