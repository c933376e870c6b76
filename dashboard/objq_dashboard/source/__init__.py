"""What pages ask: a broker or, where none answers, the document."""
