"""The patches of Kubernetes, on plain JSON trees."""
