"""Decisions of a running scheduler compared with those of the library, one by one, on random clusters: kube-scheduler's, where one is at hand.

python -m tests.differential /path/to/kube-scheduler --decisions 100000
python -m tests.differential "/path/to/kube-scheduler --feature-gates=OpportunisticBatching=false" --percentage 30 --largest 260
python -m tests.differential /path/to/kube-scheduler --extender names

With --percentage, nodes are sampled, on clusters above 100 nodes. With --extender, they are asked
about nodes by name or as a whole.
"""
