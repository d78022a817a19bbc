"""Real nodes on this machine: for each a containerd, a network namespace and a kubelet, started, supervised and removed.

What runs in the pods is real; what the nodes are is decided here. A kubelet knows nothing of it: it is the program that runs on any machine.
"""
