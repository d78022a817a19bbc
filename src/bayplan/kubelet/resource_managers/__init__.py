"""Who gets which CPUs, memory and devices of a node (pkg/kubelet/cm).

The policies are pure: `cpu_assignment`, `cpu_policy`, `memory_policy`, `device_allocation` and `topology_policy` decide from state that they are given.
`container_manager` is the one door for the rest of the kubelet: it admits pods, says what a container gets, and takes it back. `plugin_server`,
 `pod_resources` speak gRPC; nothing else here does. What must outlive the kubelet is in checkpoints in kubelet's own format.
"""
