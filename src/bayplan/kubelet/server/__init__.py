"""The kubelet's own server (port 10250): logs, streams, statistics and metrics, for those whom the API server knows and lets (pkg/kubelet/server)."""
