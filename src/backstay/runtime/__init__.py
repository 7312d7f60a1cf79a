"""Layer 5: the loop that writes things down and then does them."""
