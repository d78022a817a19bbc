"""`bayplan csi-local`: a storage driver for the disk of one node. Volumes are directories, or image files of fixed size on loop devices.

`rules.py` decides (pure), `records.py` keeps what exists, `volumes.py` makes and copies directories and images, `loop_devices.py` and `filesystems.py` wrap the
programs of the system. `controller.py` and `node.py` are the services of CSI, `driver.py` puts them together, `service.py` listens. Nothing here talks to the API
server: the claims of the node come through `bayplan csi-controller --node-deployment`, mounts are asked for by the kubelet.
"""
