"""`tools/fresh_machine` with a debootstrap that makes a root of three programs: what it refuses, runs and leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "fresh_machine"
SECONDS_MAX = 60
# $4 is the folder of the machine. The list of programs is what the commands of these tests need.
DEBOOTSTRAP = """#!/bin/sh
set -eu
echo made >>"$(dirname "$0")/calls"
[ ! -e "$(dirname "$0")/slow" ] || sleep 100
cd "$4"
mkdir -p debootstrap proc sys dev tmp srv superuser usr/bin etc/apt/apt.conf.d
echo root:x:0:0:root:/superuser:/bin/sh >etc/passwd
for program in /bin/sh /bin/sleep /bin/cat; do
    cp --parents -L "$program" $(ldd "$program" | grep -o '/[^ ]*') .
done
cp bin/sh usr/bin/apt-get
rmdir debootstrap
"""


def can_isolate() -> bool:
    """Whether we may make namespaces: only root may, and not in every container."""
    if os.geteuid() != 0:
        return False
    command = ["unshare", "--mount", "--pid", "--fork", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


NEW = ["--mirror", "none"]
needs_root = pytest.mark.skipif(not can_isolate(), reason="only root can make a machine, and not in every container")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of one commit that holds the script, a PATH with stand-ins, and a folder for temporary files."""

    root: Path
    programs: Path
    temporary: Path

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The script while it runs, in a process group of its own, as a terminal gives it."""
        environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}", "TMPDIR": str(self.temporary), "HOME": str(self.root),
            "PIP_INDEX_URL": "https://pip.example.com/a b", "SECRET": "1",
        }  # fmt: skip
        command = [str(self.root / "tools" / "fresh_machine"), *arguments]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        ) as program:
            try:
                yield program
            finally:
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGTERM)
                    program.wait(SECONDS_MAX)

    @contextmanager
    def up(self, options: list[str], commands: str = "echo up; exec sleep 1000") -> Iterator[subprocess.Popen[str]]:
        """The script while shell commands run in the machine, from when they say `up`."""
        with self.started(*options, "sh", "-c", commands) as program:
            assert next_line(program) == "up"
            yield program

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self.started(*arguments) as program:
            stdout, stderr = program.communicate(timeout=SECONDS_MAX)
            return subprocess.CompletedProcess(arguments, program.returncode, stdout, stderr)

    def stand_in(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def is_clean(self) -> bool:
        """Whether nothing is left of a machine: no file, no mount."""
        mounts = Path("/proc/self/mountinfo").read_text()
        return not list(self.temporary.iterdir()) and str(self.temporary) not in mounts


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root, programs, temporary = tmp_path / "repository", tmp_path / "bin", tmp_path / "temporary"
    for folder in (root / "tools", programs, temporary):
        folder.mkdir(parents=True)
    shutil.copy(SCRIPT, root / "tools")
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "One"]):
        subprocess.run([*git, *arguments], cwd=root, check=True)
    made = Repository(root, programs, temporary)
    made.stand_in("debootstrap", DEBOOTSTRAP)
    return made


def next_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().rstrip("\n")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_help(repository: Repository) -> None:
    done = repository.run("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: tools/fresh_machine [OPTION]... [COMMAND [ARGUMENT]...]\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "error"), [(["--quick"], "unknown option --quick"), (["--keep"], "--keep needs a value")]
)
def test_options_that_make_no_sense(repository: Repository, arguments: list[str], error: str) -> None:
    done = repository.run(*arguments)
    assert done.returncode == 1
    assert done.stderr == f"error: {error}\nhint: tools/fresh_machine --help\n"


@pytest.mark.parametrize("file", ["new", "tools/fresh_machine"])
def test_uncommitted_changes_are_refused(repository: Repository, file: str) -> None:
    with (repository.root / file).open("a") as text:
        text.write("# changed\n")
    done = repository.run()
    assert done.returncode == 1
    assert done.stderr.startswith("error: there are uncommitted changes, which the clone would not have\nhint: ")


def test_somebody_who_is_not_root_is_told(repository: Repository) -> None:
    repository.stand_in("id", "#!/bin/sh\necho 1000\n")
    done = repository.run()
    assert done.returncode == 1
    assert done.stderr == "error: only root can make a machine\nhint: sudo tools/fresh_machine\n"
    assert repository.is_clean()


@needs_root
def test_a_command_runs_in_a_clone_of_the_commit_and_nothing_is_left(repository: Repository) -> None:
    (repository.root / "uncommitted").touch()
    says = 'echo "$(pwd) $(echo *) $HOME $PIP_INDEX_URL ${SECRET-}"; sleep 1000 & exit 7'
    done = repository.run("--ignore-changes", *NEW, "sh", "-c", says)
    assert done.stdout == "/srv/headwater tools /superuser https://pip.example.com/a b \n"
    assert done.returncode == 7
    assert repository.is_clean()


@needs_root
def test_a_machine_has_processes_and_devices_of_its_own(repository: Repository) -> None:
    done = repository.run(*NEW, "sh", "-c", "echo /proc/[0-9]*; echo x >/dev/shm/x; echo /dev/*")
    processes, devices = done.stdout.splitlines()
    assert len(processes.split()) <= 3
    names = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    assert devices == " ".join(f"/dev/{name}" for name in names.split())
    assert done.returncode == 0


@needs_root
def test_a_machine_that_is_kept_is_used_again_with_a_fresh_clone(repository: Repository) -> None:
    keep = [*NEW, "--keep", str(repository.temporary / "kept")]
    says = "echo *; echo /kept*; echo /tmp/*; : >made; : >/kept; : >/tmp/made"
    assert repository.run(*keep, "sh", "-c", says).stdout == "tools\n/kept*\n/tmp/*\n"
    assert repository.run(*keep, "sh", "-c", says).stdout == "tools\n/kept\n/tmp/*\n"
    assert (repository.programs / "calls").read_text() == "made\n"
    refused = repository.run(*keep, "--suite", "trixie")
    assert "error: there is a Debian in " in refused.stderr


@needs_root
def test_a_folder_is_not_shared(repository: Repository) -> None:
    keep = [*NEW, "--keep", str(repository.temporary / "kept")]
    with repository.up(keep) as first:
        assert "is in use by another run" in repository.run(*keep, "sh").stderr
        os.killpg(first.pid, signal.SIGTERM)
        assert first.wait(SECONDS_MAX) == 143


@needs_root
def test_a_folder_with_something_else_in_it_is_left_alone(repository: Repository) -> None:
    mine = repository.temporary / "mine"
    mine.mkdir()
    (mine / "letter").touch()
    done = repository.run(*NEW, "--keep", str(mine))
    assert done.returncode == 1
    assert "is neither empty nor a Debian that is complete" in done.stderr
    assert [path.name for path in mine.iterdir()] == ["letter"]


@needs_root
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGPIPE, 141)])
def test_nothing_is_left_when_the_command_is_interrupted(repository: Repository, number: int, code: int) -> None:
    with repository.up(NEW) as program:
        os.killpg(program.pid, number)
        assert program.wait(SECONDS_MAX) == code
    assert repository.is_clean()


@needs_root
def test_a_command_may_take_its_time_to_end(repository: Repository) -> None:
    with repository.up(NEW, "trap 'sleep 1; echo down; exit' INT; echo up; while :; do sleep 0.1; done") as program:
        os.killpg(program.pid, signal.SIGINT)
        assert next_line(program) == "down"
        program.wait(SECONDS_MAX)
    assert repository.is_clean()


@needs_root
def test_nothing_is_left_when_making_is_interrupted(repository: Repository) -> None:
    (repository.programs / "slow").touch()
    with repository.started(*NEW, "sh") as program:
        until((repository.programs / "calls").exists)
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(SECONDS_MAX) == 130
    assert repository.is_clean()


@needs_root
def test_a_folder_in_which_something_is_mounted_is_not_deleted(repository: Repository) -> None:
    precious = repository.root / "precious"
    precious.mkdir()
    (precious / "letter").touch()
    # A mount that somebody makes in the machine from outside, while it runs.
    with repository.up(["--ignore-changes", *NEW]) as program:
        (machine,) = (path for path in repository.temporary.iterdir() if path.is_dir())
        subprocess.run(["mount", "--bind", precious, machine / "srv"], check=True)
        try:
            os.killpg(program.pid, signal.SIGTERM)
            program.wait(SECONDS_MAX)
            assert program.stderr is not None
            assert f"is not deleted, because {machine}/srv is mounted" in program.stderr.read()
        finally:
            subprocess.run(["umount", machine / "srv"], check=True)
    assert (precious / "letter").exists()
    assert (machine / "superuser").exists()
