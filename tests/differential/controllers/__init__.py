"""What the controllers of the program kube-controller-manager make of objects, and what Bayplan's make of the same, over a Bayplan API server each.

Scenarios, each in namespaces of its own, go on step by step on both sides at once: a person creates and changes objects, and a kubelet's part (pods get
nodes, run, end, are gone) is played. When nothing is written any more, all objects and events are compared, with times, uids and generated names in normal form.

python -m tests.differential.controllers /path/to/kube-controller-manager
"""
