"""EP, PC-EP and the descent on the energy."""
