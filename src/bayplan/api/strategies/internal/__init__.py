"""Kinds of `internal.apiserver.k8s.io`."""
