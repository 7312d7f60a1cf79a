"""Layer 4: programs that a session starts: the sandbox of the kernel, their environment, git, and where paths really lead."""
