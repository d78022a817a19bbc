"""What API objects are: the table of kinds, their types, quantities, selectors, patches, defaults, validation, printing columns, errors.

Everything here is a pure function of data. No I/O, no clock, no randomness, and nothing that knows a server or a client.
"""
