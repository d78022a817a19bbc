"""Tokens of OpenID Connect providers: signed statements (JWT) about a user by somebody whom the configuration names.

`expressions` compiles what a configuration says in CEL and `validation` checks the whole of it; `tokens` verifies a token, `claims` makes a user of what it
says; all of these are pure. `key_sets` keeps the keys of an issuer, by whatever `Fetch` it is given; `issuer` ties them. Source:
`k8s.io/apiserver/plugin/pkg/authenticator/token/oidc`.
"""
