"""Measurements: whole processes side by side, as ratios."""
