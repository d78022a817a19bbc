"""Dynamic resources (DRA) on the node: drivers that register themselves, the claims that they prepare for pods, and the devices that containers get of them.

Which devices a claim has is decided by the scheduler, and which devices there are is published by drivers; neither belongs here.
"""
