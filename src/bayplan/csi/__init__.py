"""The container storage interface (CSI) 1.12: its messages, a client for drivers, a server for drivers, and registration with a kubelet.

`messages.py` says what is on the wire, as dataclasses; `services.py` which calls there are; `client.py` makes them, `server.py` answers them. Both the kubelet and
`bayplan.csi_controller` are clients, `bayplan.csi_local` is a driver. What Kubernetes does with volumes does not belong here: this package knows no API object.
"""
