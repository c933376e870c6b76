"""Scripts for those who work on objq. Nothing here is installed."""
