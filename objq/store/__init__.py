"""Read, and write-if-unchanged, for one object in one of several stores (design §6)."""

from objq.store.aio import InThread
from objq.store.open import open_store

__all__ = ["InThread", "open_store"]
