"""Did a request fail because this machine has run out of something? Then it is not the provider's fault."""

import errno
import os
from typing import Final

# No free descriptors in this process or on this machine, no memory, no buffers.
OWN_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


def is_our_exhaustion(error: BaseException) -> bool:
    """Whether this failure is our own. A name lookup hides the cause, so we also check for a free descriptor."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, OSError) and (error.errno in OWN_LIMITS or not _has_free_descriptor())


def _has_free_descriptor() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in OWN_LIMITS
    return True
