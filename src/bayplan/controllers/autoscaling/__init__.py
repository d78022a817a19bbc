"""Controllers that choose sizes: of workloads (HPA), of their pods (VPA), and of the cluster."""
