"""The tests of numalign, laid out as the package is."""
