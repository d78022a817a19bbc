"""What Bayplan costs: `python -m benchmarks` measures and prints, `RESULTS.md` keeps figures of one run.

Each benchmark is a function that yields `Figure`s. Servers run as processes of their own, started as users start them; load comes from this process.
"""
