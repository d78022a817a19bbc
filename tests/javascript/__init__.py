"""The official JavaScript client against a cluster."""
