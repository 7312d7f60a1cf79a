"""Sessions that change the program that runs them."""
