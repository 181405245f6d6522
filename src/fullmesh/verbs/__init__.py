"""The verbs of the command line, above everything else: no other package imports them."""
