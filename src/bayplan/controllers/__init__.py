"""The controllers: one file each, around a pure function that decides what to do, run by one loop (`manager`).

A controller reads from informers, decides, writes through the client, and is called again when something it cares about changes. Controllers never call one
another and never touch a store.
"""
