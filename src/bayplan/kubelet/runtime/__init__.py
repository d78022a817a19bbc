"""What runs containers, as the kubelet sees it.

`interface` says what a runtime can do, `types` what goes in and out, `labels` how pods are found again in what a runtime says.
`cri` speaks to containerd and others by the Container Runtime Interface, `simulated` is a runtime that runs nothing, on any clock.
Nothing here decides what is to be run.
"""
