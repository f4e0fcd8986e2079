"""What the kubelet decides about a pod: its device, CPU, memory and topology managers as one pure engine."""
