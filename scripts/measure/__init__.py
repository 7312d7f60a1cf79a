"""Figures of the source itself: walks through it, sizes, and benchmarks of two trees."""
