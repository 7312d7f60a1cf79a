"""The public test kit: what you need to test code that runs on Backstay, and adapters that you write for it."""
