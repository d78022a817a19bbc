"""Network policies of one node, in nftables.

The pure core: `objects.py` keeps what matters of Pods and NetworkPolicies, `state.py` turns their changes into changes of one table per address family
(`family_state.py`), whose rules `chains.py` writes; `table.py` is a table as data and renders transactions. The shell: `nftables.py` runs `nft`, `enforcer.py`
ties informers to it. Which decisions are made where is in docs/network-policy.md. Nothing here writes to the API.
"""
