"""numalign: inspect, configure and verify the NUMA alignment of Kubernetes GPU nodes."""

__version__ = "0.1.0"
