"""A client of etcd's v3 API for asyncio, and the store that keeps its data in an etcd cluster (3.4 to 3.6).

`messages` is the wire format, `connection` finds a member that answers, `client` has the operations, `watches` puts all watches on one stream. These know nothing
of the rest of the package and can be used on their own. `store` keeps the contract of `store/interface.py` with them. Kubernetes' objects must not come here.
"""
