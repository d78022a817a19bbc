"""Placement of pods as an environment for reinforcement learning. Needs the extra `bayplan[gym]`."""
