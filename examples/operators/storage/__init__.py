"""Replicated storage by an operator, in the manner of Rook: see README.md.

`rules.py` decides (pure), `objects.py` names the custom resources, `storage_operator.py` reconciles them and answers the cluster's half of CSI (`provisioning.py`),
`workloads.py` has what it creates. `discover.py` and `agent.py` run on every node: disks are found and reported, replicas are kept (`replica.py`), and a volume is
written to all of them (`head.py`) through a file of the kernel's FUSE (`fuse.py`).
"""
