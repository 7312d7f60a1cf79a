"""Layer 5: the loop that commits events and then performs their intents."""
