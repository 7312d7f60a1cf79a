"""What was asked of models and answered, beside the log."""
