"""Pod groups: cycles for whole groups and trees of them, their placements, preemption and bindings, and groups in custom resources."""
