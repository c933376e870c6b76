"""Pages that change while they are looked on: one websocket each."""
