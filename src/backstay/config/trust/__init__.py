"""Trust and grants: a workspace by its content, rules allowed for longer than a session, programs that a trusted file runs."""
