"""Layer 4: the adapters to model providers, and the models that need none (scripted, recorded, local)."""
