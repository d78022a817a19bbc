"""The service proxy of a node: kube-proxy's nftables mode, with its tables, chains, sets and metrics under the same names.

The core is pure: `objects.py` keeps what matters of Services and EndpointSlices, `topology.py` chooses endpoints, `service_rules.py` and `base_rules.py` say
what the kernel's table should hold, `desired_table.py` keeps that one service at a time, and `transactions.py` writes the difference between two states as
commands. `syncer.py` brings these into the kernel through `nft.py`; `service.py` ties it to informers. Nothing here writes to the API but events.
"""
