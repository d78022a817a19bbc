"""Validation of CustomResourceDefinitions: names, versions, schemas, rules and their costs, in kube-apiserver's words."""
