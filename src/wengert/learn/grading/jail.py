"""Runs a submission's process so that it can do little, and ends it with everything that it has started.

    python -I -S jail.py CONFIG

CONFIG, a text in JSON, says by which `kind` of isolation, with which limits, and what to run. This process stays
outside of the jail as its guard. It ends the jail when its own standard input is closed, so that nothing survives the
grader. It prints one line, "started", or what the kernel refused.

It needs the standard library only: it runs in an interpreter that has nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from typing import Any

if __name__ == "__main__":  # by an interpreter that does not know Wengert
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import linux  # type: ignore[import-not-found]
else:
    from wengert.learn.grading import linux

Config = dict[str, Any]


def main() -> int:
    """Start the process, guard it, and leave nothing behind."""
    config = json.loads(sys.argv[1])
    try:
        if sys.platform == "linux":
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # orphans of the jail become children of this process
        if config["kind"] == "namespaces":
            _own_namespaces(config)
        if sys.platform == "linux":
            linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nobody of the same user may look into this process
        child = _start(config)
    except OSError as error:
        print(f"refused: {error}", flush=True)
        return 1
    try:
        own_limit = config["uid"] is not None  # the kernel counts the processes of a user that has no others
        _guard(child, config["limits"]["processes"] + 1, seconds=0.5 if own_limit else 0.05)
    finally:
        _end(child)
        _remove_files_of(config["uid"], config["kind"])
        shutil.rmtree(config["place"], ignore_errors=True)  # the grader may be gone
    return 0


def _own_namespaces(config: Config) -> None:
    """Processes, network and System V objects of its own, for what is started next."""
    own = linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC
    try:
        linux.unshare(own)
    except PermissionError:  # no privileges: a user namespace gives them, inside of it
        user, group = os.getuid(), os.getgid()
        linux.unshare(own | linux.CLONE_NEWUSER)
        config["uid"] = None  # inside it is nobody, so that exec takes the privileges away
        for name, text in (("setgroups", "deny"), ("uid_map", f"65534 {user} 1"), ("gid_map", f"65534 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _start(config: Config) -> int:
    """Fork the process that becomes the submission's; its number, once it runs."""
    problems, problem_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(problems)
            _become_submission(config)
        except BaseException as error:
            os.write(problem_end, f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            os._exit(97)
    os.close(problem_end)
    for descriptor in config["keep"]:
        os.close(descriptor)
    with os.fdopen(problems, "rb") as reading:
        problem = reading.read()  # until the child closes it: by exec
    if problem:
        os.waitpid(child, 0)
        raise OSError(problem.decode(errors="replace"))
    print("started", flush=True)
    return child


def _become_submission(config: Config) -> None:
    """Give up everything that a submission does not need, then run it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if config["kind"] == "namespaces":
        _own_root(config)
    _limit(config)
    if config["uid"] is not None:
        os.setgroups([])
        os.setgid(config["uid"])
        if config["kind"] == "landlock":  # which says what may be read: file permissions need not
            linux.set_user_who_reads(config["uid"])
        else:
            os.setuid(config["uid"])
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    os.chdir(config["folder"])
    if config["kind"] == "landlock":
        linux.landlock(config["readable"], config["listable"], config["writable"])
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    for descriptor in config["keep"]:
        os.set_inheritable(descriptor, True)
    os.execve(config["command"][0], config["command"], config["environment"])


def _own_root(config: Config) -> None:
    """A file system of this process's own: what it needs to read, and one small folder to write in."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    root, limits = config["root"], config["limits"]
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=755")
    for source, target in config["binds"]:
        place = root + target
        os.makedirs(place if os.path.isdir(source) else os.path.dirname(place), exist_ok=True)
        if not os.path.isdir(source):
            open(place, "a").close()
        if source.startswith("/dev/"):
            linux.mount(source, place, flags=linux.MS_BIND)
        else:
            linux.bind_read_only(source, place)
    for target in config["masks"]:
        if os.path.isdir(root + target):
            linux.mount("tmpfs", root + target, "tmpfs", linux.MS_RDONLY | linux.MS_NOSUID, "size=4k,mode=755")
    for link, target in config["links"]:
        os.symlink(target, root + link)
    os.makedirs(root + "/tmp")
    space = f"size={limits['files']},nr_inodes=4096,mode=1777"
    linux.mount("tmpfs", root + "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, space)
    linux.mount("", root, flags=linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV)
    linux.pivot_root(root)


def _limit(config: Config) -> None:
    """The limits of one process, and of all that its user runs."""
    limits = config["limits"]
    processes = limits["processes"] + 1
    if config["uid"] is None and config["kind"] != "namespaces":  # the limit counts all that this user runs
        processes = limits["processes"] + _tasks_of(os.getuid())
    for name, value in (
        ("CPU", int(limits["seconds"]) + 1),
        ("AS", limits["memory"]),
        ("FSIZE", limits["files"]),
        ("NOFILE", 64),
        ("CORE", 0),
        ("NPROC", processes),
    ):
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(number, (least, least))
        except ValueError:  # macOS refuses some
            continue


def _tasks_of(user: int) -> int:
    """How many tasks a user runs on this machine."""
    count = 0
    for number in _numbers():
        try:
            if os.stat(f"/proc/{number}").st_uid == user:
                count += len(os.listdir(f"/proc/{number}/task"))
        except OSError:
            continue
    return count


def _guard(child: int, most: int, seconds: float) -> None:
    """Wait until the process ends, too many are there, or the grader closes this process's input; look now and then."""
    os.set_blocking(0, False)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        ready, _, _ = select.select([0], [], [], seconds)
        if ready and not os.read(0, 100):
            return
        if len(_descendants()) > most:
            return


def _end(child: int) -> None:
    """Kill the process and all that came of it, also what called setsid: orphans come back to this subreaper."""
    deadline = time.monotonic() + 10
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    while time.monotonic() < deadline:
        for number in _descendants():
            try:
                os.kill(number, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return


def _descendants() -> list[int]:
    """The processes that came of this one, by their numbers."""
    parents = {}
    for number in _numbers():
        try:
            with open(f"/proc/{number}/stat") as file:
                parents[number] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found, fresh = [], [os.getpid()]
    while fresh:
        parent = fresh.pop()
        children = [number for number, of in parents.items() if of == parent]
        found += children
        fresh += children
    return found


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc/self") else []


def _remove_files_of(user: int | None, kind: str) -> None:
    """Remove what the jail's user left in the folders that everyone may write to. Namespaces do not show them."""
    if user is None or kind == "namespaces":
        return
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        for folder, folders, files in os.walk(place, topdown=False):
            for name in files + folders:
                path = os.path.join(folder, name)
                try:
                    if os.lstat(path).st_uid == user:
                        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
                except OSError:
                    continue


if __name__ == "__main__":
    sys.exit(main())
