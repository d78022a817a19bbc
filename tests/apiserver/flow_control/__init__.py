"""API Priority and Fairness."""
