"""What the Kubernetes conformance tests demand of an API server alone, and of a cluster of simulated nodes.

Each test names the conformance test whose assertions it makes; the requests go over HTTPS. Those of `requests.conformance` go to a server without controllers,
scheduler and nodes, those of `workloads` to a cluster of two nodes. More tests of running components are in the neighbouring directories.
"""
