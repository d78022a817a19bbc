"""Requests made by chance, answered by kube-apiserver and by Bayplan: `python -m tests.differential.api KUBE_APISERVER`.

Scenarios are transcripts (`bayplan.testing.transcripts`) whose steps are made from one seed: writes, patches and deletes of all kinds, lists and watches,
documents, bodies that are no objects, custom resources. Each step is played on both servers, which have the same flags, and the answers are compared in normal
form. Differences are printed in classes, each with one example; those of `known` have a reason and do not count.
"""
