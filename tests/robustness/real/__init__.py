"""Three API servers on a real etcd of three members, each on a machine of its own as far as networks and disks go, with faults in real time.

All of it lives in namespaces (network, mounts, processes) of its own, with which everything vanishes. Needs root, etcd, etcdctl, nftables, loop devices.

python -m tests.robustness.real --rounds 200
"""
