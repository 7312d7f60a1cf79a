"""What people trust and allow: a workspace by its content, grants, programs that a trusted file runs."""
