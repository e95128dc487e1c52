"""What is held out of the supervision, to compare candidates by how well they predict it."""
