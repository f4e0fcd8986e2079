"""Tests of numalign.admission."""
