"""How a machine and what was found on it look to a person."""
