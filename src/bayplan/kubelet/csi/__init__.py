"""Volumes of storage drivers (CSI) on a node (pkg/volume/csi): drivers that register themselves, what CSINode and Node say of them, and their volumes.

`requests` decides what a driver is asked for and is pure; `volumes` brings volumes to pods, as file systems or block devices; `expansion` makes them larger.
"""
