"""Causes of faults: one file per cause, in its family's folder, and the engine that loads them."""
