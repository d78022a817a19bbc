"""Revisions, history, watches and compaction behind one interface: bytes in, events out.

`interface` is the contract, `memory` and `sqlite` keep it, `url.open_store` picks one. Nothing here knows what the
bytes mean: Kubernetes' objects, resources and API errors must not come here, and this package never imports
`bayplan.api`.
"""
