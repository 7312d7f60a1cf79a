"""Layer 1: the words of Backstay. Frozen structures and nothing else."""
