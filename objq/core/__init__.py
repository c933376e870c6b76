"""The pure core: the document, the jobs, every rule. No I/O, clock, randomness, Django or asyncio.

`ops` is the vocabulary, `document` the state with its indexes, `codec` its bytes, `rules.apply`
what operations do. `claiming`, `ending`, `pushing`, `operating` and `leading` hold the rules.
"""
