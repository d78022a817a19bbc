"""`bayplan csi-controller`: what a cluster does with the volumes of one storage driver, in one process beside the driver.

Volumes are made and removed for claims, attached to nodes, made larger, modified and snapshotted, as external-provisioner, external-attacher, external-resizer and
external-snapshotter do it, each only if the driver offers it. Modules named `*_rules` and those that they use are pure: requests from objects, objects from
responses, what comes next. The others are workers (`worker.py`) around them; `service.py` chooses and runs them. Mounting is the kubelet's part and not here.
"""
