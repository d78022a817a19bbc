"""Controllers of storage and devices: binding, attaching, protection, claims."""
