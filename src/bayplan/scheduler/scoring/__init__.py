"""Verdicts and scores of pod shapes over all nodes, kept up to date, and the best nodes by them."""
