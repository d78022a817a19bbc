"""Images on a node: when they are pulled, with which credentials, who may use them, and which are removed when the disk is full.

`manager` answers the one question of a pod's start: is this image here? `references` and `keyring` are pure; `records`, `node_credentials` and
`credential_plugins` touch files and programs. What an image is is the runtime's business.
"""
