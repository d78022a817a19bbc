"""Who may do what: authorizers, asked in order, and the attributes of the requests that they judge.

`attributes` says what a request is about, `interface` what an authorizer is, `rbac` and `node` are the two that look at objects, `chain` puts them in the
order of `--authorization-mode`. Nothing here writes, and nothing here knows HTTP.
"""
