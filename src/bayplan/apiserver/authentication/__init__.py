"""Who is asking: client certificates, bearer tokens of several kinds, and nobody.

`authenticator` asks the sources in order; each kind of token has a file. Who may do what is none of this package's business.
"""

from bayplan.apiserver.authentication.authenticator import AUTHENTICATED, Authenticator
from bayplan.apiserver.authentication.token_file import TokenFileError, read_token_file

__all__ = ["AUTHENTICATED", "Authenticator", "TokenFileError", "read_token_file"]
