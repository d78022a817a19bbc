"""Rules for API objects that several kinds share, in the words of Kubernetes.

`formats` says what is wrong with one string, `fields` with one field, the other modules with one part of an object.
Functions named `check_*` add to a list of
errors; those named `validate_*` return one. Nothing here looks at other objects, and nothing changes what it looks at.
"""
