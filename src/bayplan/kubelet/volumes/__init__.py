"""Volumes of a node's pods: one file per kind (`interface.VolumeKind`), a table of them (`kinds`), and the manager that sets them up and tears them down.

Directories are laid out as Kubernetes' kubelet does it, `ROOT/pods/UID/volumes/kubernetes.io~KIND/NAME`, so that everything a restart must know is on disk.
"""
