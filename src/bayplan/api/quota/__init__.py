"""Quota usage: what an object counts for, as pure functions shared by admission and the ResourceQuota controller.

`amounts` is arithmetic on resource lists, `evaluators` says per kind what is counted, `scopes` which pods and claims a quota is about.
Nothing here reads or writes the API.
"""
