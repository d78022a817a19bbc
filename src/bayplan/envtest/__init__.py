"""The programs that controller-runtime's envtest starts, in Kubernetes' place: `etcd`, `kube-apiserver` and `kubectl`."""
