"""Benchmarks: `make bench`, one part with `ONLY=name`. Figures, never verdicts of a test."""
