"""A node on this machine: the kubelet with the parts that it needs of the machine, wired together."""
