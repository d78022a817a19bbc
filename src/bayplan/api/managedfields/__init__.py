"""Who owns which field: server-side apply and `metadata.managedFields`, as pure functions over JSON trees.

    fieldset.py   sets of field paths, in the form in which they are stored (FieldsV1), and their algebra
    typed.py      what fields, lists and maps of a kind are for ownership: granular, atomic, keyed
    compare.py    which fields two states of an object differ in; which fields a configuration names
    merge.py      laying an applied configuration over a live object; taking fields out of an object
    managers.py   the managers of an object, and what an update or an apply makes of them

The behaviour is that of Kubernetes' structured merge diff (KEP-555). Nothing here knows of requests, stores or strategies.
"""
