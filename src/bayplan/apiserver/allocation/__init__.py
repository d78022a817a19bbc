"""What the server gives out itself: cluster IPs and node ports of services.

`services` runs one service write as a transaction: allocate before the write, then commit or undo. `families` decides which address families a service
has, `addresses` gives out cluster IPs (each is an IPAddress object, so that no two servers give out the same), `ports` node ports. Nothing else of
services may come here.
"""

from bayplan.apiserver.allocation.services import Allocation, Allocators

__all__ = ["Allocation", "Allocators"]
