"""Tokens of service accounts: signed statements (JWT) about an account and the object that the token is bound to.

`keys` signs and verifies, `issuing` makes tokens, `verification` finds the user of one. Nothing here answers requests.
"""
