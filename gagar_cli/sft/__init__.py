"""Data to train a grader on: which votes are worth learning from, and the shapes trainers load."""
