"""What the tests of pictures share: machines, and overlays of a plan and of pods."""

from __future__ import annotations

from numalign.machine import Machine
from tests import machines

NASTY = "<script>alert(1)</script>\"'&]]>\x00\x1b[31m\ufffe\ud800é\u202e" + "W" * 90

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  initContainers:
    - {name: fetch, resources: {limits: {cpu: 2, memory: 1Gi}}}
  containers:
    - {name: main, resources: {limits: {cpu: 26, memory: 200Gi, nvidia.com/gpu: 2}}}
    - {name: side, resources: {limits: {cpu: 4, memory: 4Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers:
    - {name: main, resources: {limits: {cpu: 60, memory: 400Gi, nvidia.com/gpu: 8}}}
"""

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-1,56-57,112,168-169
topologyManagerPolicy: single-numa-node
"""

NAMES = machines.names()


def hostile(machine: Machine) -> Machine:
    """The machine with names that want to be markup."""
    from msgspec.structs import replace

    gpus = tuple(replace(gpu, model=NASTY, uuid=NASTY, driver=NASTY) for gpu in machine.gpus)
    nics = tuple(replace(nic, model=NASTY, netdevs=(NASTY,), link_layer=NASTY, state=NASTY) for nic in machine.nics)
    warnings = tuple(replace(warning, message=NASTY) for warning in machine.warnings)
    return replace(machine, name=NASTY, cpu_model=NASTY, gpus=gpus, nics=nics, warnings=warnings)
