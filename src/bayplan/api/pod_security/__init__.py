"""The pod security standards as pure functions: what levels forbid (`baseline`, `restricted`), and what a namespace's labels ask for (`policy`).

Source: the Pod Security Standards of Kubernetes and their versions; wording as the plugin `PodSecurity` has it. Nothing here reads the API.
"""
