"""Why a check of what the kubelet left could not look."""

from __future__ import annotations

from numalign.checks.finding import Gap, State

__all__ = ["no_folder", "unreadable"]


def no_folder(state: State) -> Gap | None:
    """There is no directory of a kubelet to look into, or it cannot be read."""
    if "" in state.problems:
        return Gap("not-looked-at", f"{state.folder}: {state.problems['']}")
    return None if state.folder else Gap("not-looked-at", "no directory of a kubelet")


def unreadable(state: State, name: str) -> Gap | None:
    """Something in the kubelet's directory could not be read."""
    reason = state.problems.get(name)
    return Gap("not-looked-at", f"{state.place(name)}: {reason}") if reason else None
