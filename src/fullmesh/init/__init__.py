"""Turn a list of machines into an inventory (``./fullmesh init``)."""
