"""Admission policies in the Common Expression Language.

Which of them are in force (`active`) and about a request (`matching`), what they see of it (`inputs`), what they say (`verdicts`), and what they make of it
(`mutations`). The plugins that ask them are `admission/validating_admission_policy.py` and `admission/mutating_admission_policy.py`.
Nothing here waits for anything.
"""
