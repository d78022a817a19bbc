"""Cgroups of a node, as files: of all pods, of the classes of service, of each pod; what they use, and their end.

`mounts` finds the hierarchies (version 1, 2, or hybrid), `names` where a cgroup is in them, `hierarchies` reads and writes it,
`pods` has the tree that kubelet makes:

    /                                  or --cgroup-root
    └── kubepods                       limits: what the node has for pods (enforceNodeAllocatable)
        ├── pod<uid>                   Guaranteed
        ├── burstable
        │   └── pod<uid>
        └── besteffort
            └── pod<uid>

Which limits they get is decided in `kubelet.core.resources`; cgroups of containers are the runtime's.
"""
