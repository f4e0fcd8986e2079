"""numalign predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.files import emit_document, read_file
from numalign.cli.node import Kubelet, effective_document, read_configuration, read_state, refuse_unstartable, version
from numalign.cli.source import load
from numalign.errors import WrongUsage

if TYPE_CHECKING:
    from numalign.admission.offers import Offer
    from numalign.cli.running import Running
    from numalign.kubelet.view import KubeletView
    from numalign.machine import Machine

__all__ = ["predict"]

_MAX_PODS_FILE = 8 << 20
_MAX_DEVICES_FILE = 1 << 20


def predict(
    *,
    file: str,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    state_dir: str | None = None,
    kubernetes_version: str | None = None,
    running: bool = False,
    device: tuple[str, ...] = (),
    devices: str | None = None,
    mig_strategy: str | None = None,
    count: bool = False,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Say what the kubelet would do with pods: which CPUs, devices and memory they get, or why it refuses them.

    Pods are taken in the order of the file, each beside those before it. Of a Deployment and the like one pod is looked
    at. The node is empty, unless --running says otherwise. The exit status is 0 where all are admitted, 1 where not.
    """
    _refuse_two_readers(file, config, machine, devices)
    from numalign.admission.fit import most_pods
    from numalign.admission.manifest import read_pods
    from numalign.admission.node import Node
    from numalign.admission.offers import preferences
    from numalign.admission.prediction import Occupancy
    from numalign.admission.prediction import predict as predicted
    from numalign.kubelet.settings import settings
    from numalign.kubelet.view import kubelet_view

    pods, skipped = read_pods(read_file(file, _MAX_PODS_FILE), "standard input" if file == "-" else file)
    found, host = load(root, machine, nvml)
    kubelet = Kubelet(host)
    minor, told_by = version(kubernetes_version, kubelet)
    document = effective_document(read_configuration(config, config_dir, kubelet_flags, kubelet, root), minor)
    wanted, view = settings(document.values, minor), kubelet_view(found)
    refuse_unstartable(document, wanted, view)
    beside = None
    if running or state_dir:
        from numalign.cli.running import read_running

        packed = state_dir is None and host is not None and host.packed
        beside = read_running(wanted, view, read_state(state_dir, kubelet, root), packed=packed)
    specs = _specs(device, devices)
    offers = _offers(found, view, beside, specs, mig_strategy)
    node = Node(
        wanted,
        view,
        [each for offer in offers for each in offer.devices],
        prefer=preferences(found, offers),
        max_pods=most_pods(document.values, view),
    )
    report = predicted(
        found,
        node,
        pods,
        offers=offers,
        config=document.source,
        version_from=told_by,
        occupancy=beside.occupy(node, _overruled(offers, specs)) if beside else Occupancy("empty"),
        skipped=skipped,
        counting=count,
    )
    emit_document(report, output, "prediction:draw", out)
    return int(not report.holds)


def _refuse_two_readers(*files: str | None) -> None:
    """Raises WrongUsage where standard input is to be read for several things."""
    if files.count("-") > 1:
        raise WrongUsage("standard input can be read only once", hint="name a file for the others")


def _overruled(offers: list[Offer], specs: dict[str, str]) -> tuple[str, ...]:
    """The resources of which something was given, and whose registered devices hold."""
    return tuple(offer.resource for offer in offers if offer.said_by == "state" and offer.resource in specs)


def _specs(words: tuple[str, ...], file: str | None) -> dict[str, str]:
    """What --devices and --device say of resources. Raises WrongUsage, CannotRead."""
    from numalign.admission.offers import given_offers, read_devices

    table = read_devices(read_file(file, _MAX_DEVICES_FILE), file) if file is not None else {}
    return given_offers(words, table)


def _offers(
    machine: Machine,
    view: KubeletView,
    beside: Running | None,
    specs: dict[str, str],
    mig_strategy: str | None,
) -> list[Offer]:
    """What plugins offer: what they have registered, else what the map tells; and what was given for others.

    Raises WrongUsage.
    """
    from numalign.admission.offers import gpu_offers, with_given

    offers = {offer.resource: offer for offer in gpu_offers(machine, mig_strategy)}
    if beside is not None and beside.files.devices is not None:
        from numalign.admission.occupancy import registered

        offers = {offer.resource: offer for offer in registered(beside.files, machine, beside.allocatable)}
    found = with_given(list(offers.values()), specs)
    known = {node.id for node in view.nodes}
    for offer in found:
        for each in offer.devices:
            if offer.said_by == "option" and not set(each.numa or ()) <= known:
                wrong = min(set(each.numa or ()) - known)
                raise WrongUsage(f"--device {offer.resource}: the machine has no NUMA node {wrong}")
    return found
