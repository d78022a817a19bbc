"""The audit log: which requests are recorded, what is recorded of them, and where it goes.

policy.py says how much is recorded of a request; record.py gathers it while the request is answered and hands an event of each stage (events.py) to the
backends: log_backend.py writes to a file that rotation.py keeps small, webhook_backend.py posts, batching.py and truncation.py stand before either.
auditor.py is the one door for the server. Nothing here knows HTTP or decides about a request, but for `blocking-strict`, which refuses what cannot be recorded.

Source of the behaviour: `k8s.io/apiserver/pkg/audit`, `pkg/endpoints/filters/audit.go`, `plugin/pkg/audit`.
"""
