"""A backend of a project that builds on ours."""

from __future__ import annotations

from objq.backend import ObjqBackend


class DerivedBackend(ObjqBackend):
    pass
