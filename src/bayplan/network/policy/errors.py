"""Why network policies cannot be enforced."""

from __future__ import annotations


class PolicyError(Exception):
    """Policies cannot be enforced on this machine; the message says what it lacks."""


class TransactionError(Exception):
    """The kernel has refused a transaction, or the table cannot be read; the table is as it was. Worth a new attempt."""
