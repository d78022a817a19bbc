"""YAML as Kubernetes reads and writes it, at bounded cost."""
