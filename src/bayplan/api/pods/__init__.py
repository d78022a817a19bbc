"""What pods say in several fields taken together: resources, references, tolerations, rules during execution, logs."""
