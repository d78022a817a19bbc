"""An upgrade tried beforehand: one workload under two settings (configuration, plugins, rules of a Kubernetes version), pod by pod."""
