"""The kubelet's node: what the machine is, how the API shows it, its registration, status and lease."""
