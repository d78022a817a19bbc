"""What users add to admission: webhooks, and policies in the Common Expression Language."""
