"""What can be done with stored sessions: list, load, hold, move and prune them."""
