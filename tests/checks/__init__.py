"""Tests of numalign.checks."""
