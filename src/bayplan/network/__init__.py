"""The pod network of a node: routes or tunnels to the pods of other nodes, and network policies."""
