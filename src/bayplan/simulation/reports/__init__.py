"""Answers for people: tables for terminals, pages of HTML, charts."""
