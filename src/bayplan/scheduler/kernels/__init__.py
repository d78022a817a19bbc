"""Loops over rows that a compiler (numba, an extra) turns into machine code where it is installed and pays.

NumPy needs a dozen passes over memory, and as many calls, for what is one loop. `loops` says what is computed, `compiler` is the only module that
knows numba, `choice` decides whether and when it is used. Each loop has a NumPy twin, in the module that calls it, which gives the same bit for bit and serves
everywhere else; so nothing depends on numba but time. What plugins decide does not belong here.
"""
