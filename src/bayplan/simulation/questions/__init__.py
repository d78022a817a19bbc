"""Questions about a cluster: how much fits, which nodes can go, what quotas allow, what would happen if."""
