"""The client: finds the broker, sends requests over one socket, repeats them (S7, S12).

    caller → sync / client → session → dialer → link → transport
                                 └───→ direct (a push, when no broker answers)

Use it through `objq.connect` and `objq.aconnect`; what is inside one process shares one connection.
"""
