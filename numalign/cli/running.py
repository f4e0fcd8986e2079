"""What runs on the node already: the kubelet's state files, and the pods' names from its pod-resources API."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numalign.cli.answers import SOCKET, Answers
from numalign.errors import CannotRead

if TYPE_CHECKING:
    from numalign.admission.node import Node
    from numalign.admission.occupancy import Files
    from numalign.admission.prediction import Occupancy
    from numalign.kubelet.podresources import Allocatable, Method, Pods
    from numalign.kubelet.settings import Settings
    from numalign.kubelet.view import KubeletView
    from numalign.probe.host import Host
    from numalign.probe.kubelet import State

__all__ = ["Running", "read_running"]


class Running(NamedTuple):
    """The state in the files of a directory, and what the API says of pods and devices (None: it was not asked, or gave
    no answer)."""

    folder: str
    files: Files
    pods: Pods | None
    allocatable: Allocatable | None
    notes: tuple[str, ...]

    def occupy(self, node: Node, overruled: tuple[str, ...]) -> Occupancy:
        """Puts the pods on an empty node; registered devices have `overruled` what was given.

        Raises CannotRead where the files contradict each other."""
        from numalign.admission.occupancy import occupy
        from numalign.admission.prediction import Occupancy

        notes = [f"--device {name} does not count: its plugin has registered its devices" for name in overruled]
        notes += occupy(node, self.files, self.pods.pods if self.pods else None)
        return Occupancy(self.folder, tuple(node.state.pods), (*self.notes, *notes))


def read_running(settings: Settings, view: KubeletView, state: State, *, snapshot: Host | None) -> Running:
    """What runs, by the state files and the API, of which a `snapshot` has the answers. Raises CannotRead, and
    DoesNotHold where the kubelet does not start on its files."""
    from numalign.admission.occupancy import read_files
    from numalign.probe.kubelet import STATE_FILES

    if not state.folder:
        raise CannotRead("no directory of a kubelet, which has what runs", hint="--state-dir names one")
    for name in ("", *STATE_FILES):
        if name in state.problems:
            raise CannotRead(f"{state.place(name)}: {state.problems[name]}".replace("/:", ":"), hint="run it as root")
    if not state.files:
        raise CannotRead(
            f"{state.folder}: no state file of a kubelet: {', '.join(STATE_FILES)}",
            hint="without --running the node is taken for empty",
        )
    files = read_files(settings, view, state.files, state.folder)
    calls: tuple[Method, ...] = ("List", "GetAllocatableResources")
    if snapshot is not None:
        answers = Answers.recorded(snapshot, calls)
    else:
        answers = Answers.asked(f"{state.folder}/{SOCKET}", calls)
    return Running(state.folder, files, *_named(answers, packed=snapshot is not None))


def _named(answers: Answers, *, packed: bool) -> tuple[Pods | None, Allocatable | None, tuple[str, ...]]:
    """What the API says, and a note where the pods have no names for its silence."""
    pods, allocatable = answers.pods(), answers.allocatable()
    if pods is not None:
        return pods, allocatable, ()
    why = "" if packed else "the pod-resources API does not answer: "
    return None, None, (f"pods are named by their UIDs, since {why}{answers.silence['List'].reason}",)
