"""What the log means: folds over events."""
