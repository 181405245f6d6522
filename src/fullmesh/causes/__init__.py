"""What can be wrong: one file for each cause, in the folder of its family, and the engine that reads them."""
