"""An etcd cluster in virtual time, for clients that are to live through what real ones do.

`state` is what all members agree about, without time or chance. `cluster` has the members, their network and their faults; `watching` serves watches. `channel` is
what a client dials in place of gRPC: the very messages of the wire, but with answers that are late, lost or out of order.
"""
