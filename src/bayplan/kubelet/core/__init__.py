"""What a kubelet decides, as functions of data: no I/O, no clock, no state that outlives a call.

`pod_state` is what a runtime has of a pod; `actions` says what is to be done about it, `pod_status` what the API is to show of it, `admission` whether
a node takes a pod at all. The kubelet drives a container runtime with these, the node simulator its simulated pods.
"""
