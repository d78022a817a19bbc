"""Decisions of a running scheduler compared with those of the library, one by one, on random clusters: kube-scheduler's, where one is at hand.

python -m tests.differential /path/to/kube-scheduler --decisions 100000
"""
