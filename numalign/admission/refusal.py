"""Why a manager refuses a pod, with the reason and message that the kubelet puts into the pod's status.

Source: pkg/kubelet/cm/admission/errors.go and the managers' own error types, 1.27 to 1.37.
"""

from __future__ import annotations

__all__ = ["EMPTY_POOL", "KubeletPanics", "Refused", "empty_pool", "no_locality", "smt_alignment", "unexpected"]

EMPTY_POOL = "EmptyPodSharedPoolError"


class Refused(Exception):
    """The pod is refused."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class KubeletPanics(Exception):
    """The kubelet stops with a panic instead of deciding; its text says on what."""


def unexpected(error: object) -> Refused:
    """An error that has no reason of its own."""
    return Refused("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")


def no_locality(message: str = "Resources cannot be allocated with Topology locality") -> Refused:
    """The topology manager's policy does not take the merged hint."""
    return Refused("TopologyAffinityError", message)


def smt_alignment(message: str) -> Refused:
    """The option full-pcpus-only cannot be kept."""
    return Refused("SMTAlignmentError", f"SMT Alignment Error: {message}")


def empty_pool(message: str) -> Refused:
    """A pod with resources of its own leaves none of them to its shared containers (1.36)."""
    return Refused(EMPTY_POOL, f"pod rejected, {message}")
