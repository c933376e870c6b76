"""What `objq_doctor` does: look at everything that a queue needs, and say what to do.

    examination → configuration, storage, contents, broker, workers, clocks → findings

Looking changes nothing, apart from the probe's own objects, which it removes. `treatment` alone
writes the document, and it does so through the commit loop like everybody else.
"""
