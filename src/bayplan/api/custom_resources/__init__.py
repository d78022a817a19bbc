"""Custom resources: kinds that a CustomResourceDefinition adds at run time.

Their objects are JSON trees with typed metadata (`objects`), checked, pruned and defaulted by a structural schema (`pruning`, `defaulting`, `values`, ...); their
rows in the table of kinds (`kinds`) carry the class of the objects, the rules (`strategy`) and the columns (`printing`). All of it is pure.
"""
