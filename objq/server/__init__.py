"""The broker's port: its websockets, and what it says over HTTP.

    socket → listener → asgi → consumer → seam (the broker)
                          └──→ metrics, /healthz, /readyz

`serving` runs a broker and its port in one process. Nothing here decides anything about jobs.
"""
