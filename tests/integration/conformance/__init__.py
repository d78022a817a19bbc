"""What the Kubernetes conformance tests demand of an API server alone.

Each test names the conformance test whose assertions it makes; the requests go over HTTPS to a server without controllers, scheduler and nodes. Tests that need
running components are in the neighbouring directories.
"""
