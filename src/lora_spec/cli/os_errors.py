"""Errors of the system as one line and an exit code, the same for the command and for scripts."""

import errno

from lora_spec.cli import exit_codes

# Where the system is at fault and not what was asked for: the disk is full or broken, memory or files ran out.
_FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def told_os_error(error: OSError) -> tuple[str, int]:
    """Return what to say and the exit code: a path that cannot be used is wrong input, all else is a failed run."""
    where = f"{error.filename}: " if error.filename else ""
    is_failed_run = error.errno in _FAILURES or not error.filename
    code = exit_codes.FAILED if is_failed_run else exit_codes.WRONG_INPUT
    return f"{where}{error.strerror or error}; check the path and the disk", code
