"""The DNS server of a cluster, by the Kubernetes DNS specification 1.1 and as CoreDNS' `kubernetes` plugin answers.

`zone.py` is the pure core: names built from Services and EndpointSlices, changed one object at a time. `responder.py` makes answers of it and of what
`forwarder.py` gets from upstream servers, `answer_cache.py` keeps them as bytes, and `wire.py` alone turns records into messages and back. `service.py` ties
these to informers and sockets. It works on any cluster that a kubeconfig reaches. Nothing here writes to the API.
"""
