"""The command line: one file per verb. Verbs talk through `bayplan.client` or start things through `bayplan.cluster`; they hold no logic of their own.

A verb's module is imported when the verb is used, so `bayplan --help` and `bayplan version` stay fast.
"""
