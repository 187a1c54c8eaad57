"""How far a grader can be trusted, measured on a graded file, its transcripts and a reference."""
