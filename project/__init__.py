"""A small documentation library that uses objq for its search index, and objq's dashboard."""
