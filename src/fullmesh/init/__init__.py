"""``./fullmesh init``: from a list of machines to an inventory."""
