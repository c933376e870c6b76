"""What an operator does to jobs and queues: asked by a form, confirmed, done and told."""
