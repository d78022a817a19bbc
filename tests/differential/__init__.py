"""Decisions of a running scheduler compared with those of the library, one by one, on random clusters: kube-scheduler's, where one is at hand.

python -m tests.differential /path/to/kube-scheduler --decisions 100000
python -m tests.differential "/path/to/kube-scheduler --feature-gates=OpportunisticBatching=false" --percentage 30 --largest 260
python -m tests.differential /path/to/kube-scheduler --extender names
python -m tests.differential "/path/to/kube-scheduler --feature-gates=OpportunisticBatching=false" --gangs

With --percentage, nodes are sampled, on clusters above 100 nodes. With --extender, they are asked
about nodes by name or as a whole. With --gangs, groups of pods are placed as a whole or not at all, within one zone or anywhere. With
kube-scheduler's OpportunisticBatching, which keeps the order of nodes for the next equal pod, 5 of 3,511 gangs' pods went elsewhere.
"""
