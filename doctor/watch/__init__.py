"""`doctor run`: supervise a server from outside, observe, decide, collect evidence, explain."""
