"""A simulated world: the real code in one thread on a virtual clock (see `world`)."""
