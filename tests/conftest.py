"""What holds for all tests."""

from hypothesis import settings

settings.register_profile("bayplan", deadline=None)  # a busy machine makes an example slow, not wrong
settings.load_profile("bayplan")
