"""From bytes to typed events; nothing here judges what it reads."""
