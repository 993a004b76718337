"""Programs that run in children, in the doctor's interpreter or the launch's; each prints JSON, one object a line."""
