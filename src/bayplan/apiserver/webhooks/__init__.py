"""Admission webhooks: which are asked about a request (`matching`), what they are told and what they say (`reviews`), and how they are reached (`calling`).

Conversion webhooks are told and say something else (`conversion_reviews`); they are reached in the same way.
What sends bytes is passed in (`calling.Sender`), so nothing here touches a socket.
"""
