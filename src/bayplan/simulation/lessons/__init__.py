"""Guided scenarios for people who learn Kubernetes: a small cluster in virtual time, told step by step.

A scenario is one YAML file in `scenarios/`: the cluster, what the reader does, and per step which write of which component it tells of (`lesson`). `player` runs it
on a `VirtualCluster` with the components of `bayplan up` and waits until each step has happened; `recorder` keeps every write as a difference with the component
that made it; `code_places` finds the code that a step names. So a step whose text is not true any more fails when it is played. What must not come here: anything
that pages or terminals draw.
"""
