"""The Common Expression Language as Kubernetes has it: syntax, types, the check that an expression fits the types of its variables, and evaluation.

`parser` makes nodes of text, `checker` finds their types by the functions in `library`, `validators` looks at what only literals show, `issues` writes what was
found as cel-go does. `schema_types` makes types of OpenAPI schemas, `policies` checks the expressions of admission policies. `evaluation` makes programs of checked
expressions: `building*` makes `steps` of nodes, `functions` computes with `values`, `costs` says what that costs. Pure: nothing waits, and every evaluation ends.
Sources: the CEL specification, cel-go 0.26 (which Kubernetes 1.36 uses), and `k8s.io/apiserver/pkg/cel`.
"""
