"""Real kubectl against kube-apiserver and Bayplan: the same commands in the same order, and what they print compared.

    python -m tests.differential.kubectl KUBE_APISERVER [--kubectl KUBECTL]

Both servers have the same flags and begin empty, without controllers. Each command runs in a directory with the manifests of `manifests.py`; standard output,
standard error and exit code are compared once what differs by chance (times, ages, uids, revisions, addresses, ports) has been replaced by `normalizing.py`.
"""
