"""The descheduler: evicts pods from nodes on which they should not stay, so that the scheduler places their successors better.

`planner.run_pass` decides (pure: a policy and a snapshot in, decisions out), the strategies under `plugins/` say which
pods should go and why. `service` is the shell around it: informers, evictions, events, metrics. Policies are those of
kubernetes-sigs/descheduler (`descheduler/v1alpha2`).

Other components must not be imported here. Placing pods does not belong here either: that is the scheduler's.
"""
