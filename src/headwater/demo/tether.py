"""Starts a program that ends when its parent does, however that ends.

`python tether.py PARENT SIGNAL USER PROGRAM ...` becomes the program. It is run as a file and imports nothing but what
Python always has, so that it takes no time. USER is `-` for the user who starts it. The kernel sends SIGNAL when the
process PARENT is gone.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1
GONE = 1


def main(arguments: list[str]) -> None:
    """Becomes the program."""
    parent, number, user, *program = arguments
    if user != "-":
        account = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    # After the user was changed: that takes it away again.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != int(parent):
        # It was gone before the kernel was asked.
        sys.exit(GONE)
    os.execvp(program[0], program)  # noqa: S606 - the program is the supervisor's own


if __name__ == "__main__":
    main(sys.argv[1:])
