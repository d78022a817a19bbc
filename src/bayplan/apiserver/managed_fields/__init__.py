"""Managed fields of typed objects: who made each change, worked out for every write, with memos and fast paths. The rules are in bayplan.api.managedfields."""
