"""Group versions that other API servers answer: which they are (APIService objects), how requests get there, and what discovery and OpenAPI say of them.

Whether such a server is available is written by `apiserver.upkeep.api_services`. What travels over HTTP is sent by `apiserver.http_relay`.
Source of the behaviour: Kubernetes' kube-aggregator.
"""
