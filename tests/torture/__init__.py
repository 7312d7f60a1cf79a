"""The torture programme: real processes, real signals, broken disks. `python -m tests.torture --list` shows its parts."""
