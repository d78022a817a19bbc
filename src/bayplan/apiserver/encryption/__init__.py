"""Encryption at rest: which objects are encrypted in the store, with which keys.

`configuration` reads an `EncryptionConfiguration` (apiserver.config.k8s.io/v1) into `resources`, which choose the `providers` of a key in the store. The forms are
kube-apiserver's, so that a store encrypted by one of the two is read by the other. Nothing here does input or output.
"""
