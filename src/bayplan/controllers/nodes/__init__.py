"""Controllers of nodes: their health, addresses and taints, and pods that have to leave them."""
