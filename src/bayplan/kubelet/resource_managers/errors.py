"""What can go wrong with CPUs, memory and devices of a node."""

from __future__ import annotations

from bayplan.kubelet.errors import KubeletError

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY_AFFINITY = "TopologyAffinityError"
SMT_ALIGNMENT = "SMTAlignmentError"


class ResourceManagerError(KubeletError):
    """A manager cannot start: its policy does not fit the machine, or its checkpoint does not fit the policy."""


class CheckpointError(ResourceManagerError):
    """A checkpoint cannot be used."""


class AllocationError(KubeletError):
    """A container cannot have what it asks for; `reason` is that of the pod's status."""

    reason = UNEXPECTED

    def message(self) -> str:
        """The text behind "Pod was rejected: "."""
        return f"Allocate failed due to {self}, which is unexpected"


class SmtAlignmentError(AllocationError):
    """A container asks for a part of a core, or for more whole cores than are free, where it may only have whole ones."""

    reason = SMT_ALIGNMENT

    def message(self) -> str:
        """See AllocationError."""
        return str(self)


class TopologyAffinityError(AllocationError):
    """What a container asks for is not near enough to each other."""

    reason = TOPOLOGY_AFFINITY

    def __init__(self) -> None:
        super().__init__("Resources cannot be allocated with Topology locality")

    def message(self) -> str:
        """See AllocationError."""
        return str(self)


class PluginError(KubeletError):
    """A device plugin did not do what it was asked for."""
