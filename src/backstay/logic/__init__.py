"""Layer 2: what the log means and what comes next. Pure: no await, no clock, no path, no client."""
