"""The only place that wires components together: store, API server, scheduler, controllers and nodes in one process.

`Cluster` starts and stops them; every component but the API server gets a client of its own and nothing else of the others.
"""
