"""How numalign is packed for nodes: the single file, and the list of what is in it."""
