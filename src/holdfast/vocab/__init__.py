"""Layer 1: the words of Holdfast. Frozen structures and nothing else."""
