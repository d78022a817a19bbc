"""The built-in plugins, one per file, named as in Kubernetes. Plugins do not import each other."""
