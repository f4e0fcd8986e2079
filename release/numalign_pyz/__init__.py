"""What runs first in numalign.pyz: looks at the Python that it is given, unpacks numalign once, and starts it."""
