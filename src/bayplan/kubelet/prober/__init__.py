"""Startup, liveness and readiness probes of containers: one task each, their results, and what a probe does (pkg/kubelet/prober)."""
