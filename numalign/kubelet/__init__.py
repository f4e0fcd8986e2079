"""What the kubelet takes and refuses."""
