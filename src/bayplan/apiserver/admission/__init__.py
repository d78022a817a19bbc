"""Admission: what the server adds to objects and refuses beyond validation, in one ordered chain. One plugin, one file, one line in the table of `chain`."""
