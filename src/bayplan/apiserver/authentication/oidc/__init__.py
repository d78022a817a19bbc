"""Tokens of OpenID Connect providers: signed statements (JWT) about a user by somebody whom the configuration names.

`validation` checks what a configuration says, `expressions` is what its CEL sees; `tokens` verifies a token, `claims` makes a user of what it
says; all of these are pure. `key_sets` keeps the keys of an issuer, by whatever `Fetch` it is given; `issuer` ties them. Source:
`k8s.io/apiserver/plugin/pkg/authenticator/token/oidc`.
"""
