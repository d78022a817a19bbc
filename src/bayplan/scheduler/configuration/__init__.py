"""KubeSchedulerConfiguration and older forms of it: typed, read and checked."""
