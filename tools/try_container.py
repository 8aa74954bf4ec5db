"""Carry out deploy/container/Containerfile in a clean root, and run a job in what comes out.

For machines without a container engine, as root: debootstrap makes the base, each stage is a copy
of it, RUN is a chroot, and the result runs as the image's user with a read-only root, in namespaces
of its own: it is process 1, and has no network but loopback.

    .venv/bin/python tools/try_container.py [--base FOLDER]     after: make release

`--base` keeps the debootstrapped root for the next time. Instructions that this program does not
know are refused, so that the Containerfile can't outgrow what is tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[1]
CONTAINERFILE = PROJECT / "deploy" / "container" / "Containerfile"
TRIAL = PROJECT / "tools" / "try_installed.py"
IGNORED = {"EXPOSE", "VOLUME"}  # said to an engine; here nothing is published
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Image:
    """What the instructions of one stage have led to."""

    base: str
    name: str
    root: Path = Path()
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    user: str = "0:0"
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)


def instructions(text: str) -> list[tuple[str, str]]:
    """Return instruction and arguments of each line; continued lines are one."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [
        (line.split()[0], line.partition(" ")[2].strip()) for line in lines if line[:1].isupper()
    ]


def build(base: Path, folder: Path, wheels: Path) -> Image:
    """Carry out all stages, and return the last one."""
    stages: dict[str, Image] = {}
    image = Image("", "")
    for word, rest in instructions(CONTAINERFILE.read_text()):
        print(f"{word} {rest[:100]}", flush=True)
        match word:
            case "FROM":
                origin, _, name = rest.partition(" AS ")
                image = Image(origin, name or "final")
                image.root = folder / image.name
                subprocess.run(["cp", "-a", str(base), str(image.root)], check=True)
                stages[image.name] = image
            case "RUN":
                _inside(image, ["/bin/sh", "-c", rest], wheels=wheels)
            case "COPY":
                _copy(image, shlex.split(rest), stages)
            case "ENV":
                image.env |= dict(one.split("=", 1) for one in shlex.split(rest))
            case "WORKDIR":
                image.folder = rest
            case "USER":
                image.user = rest
            case "ENTRYPOINT":
                image.entrypoint = json.loads(rest)
            case "CMD":
                image.command = json.loads(rest)
            case "HEALTHCHECK":
                image.health = json.loads(rest.partition("CMD ")[2])
            case _ if word not in IGNORED:
                sys.exit(f"{CONTAINERFILE.name}: {word} is not known to {Path(__file__).name}")
    return image


def _copy(image: Image, words: list[str], stages: dict[str, Image]) -> None:
    origin = PROJECT
    if words[0].startswith("--from="):
        origin = stages[words.pop(0).removeprefix("--from=")].root
    source, target = origin / words[0].lstrip("/"), image.root / words[1].lstrip("/")
    if source.is_dir():
        subprocess.run(["cp", "-a", "--no-target-directory", str(source), str(target)], check=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _inside(image: Image, words: list[str], *, wheels: Path) -> None:
    """Run a build step: as root, in the stage's root. pip takes what was downloaded before."""
    mounted = image.root / "wheels"
    mounted.mkdir(exist_ok=True)
    script = f"mount --bind {wheels} {mounted} && exec chroot {image.root} {shlex.join(words)}"
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels", "PIP_CONFIG_FILE": "/dev/null"}
    subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script],
        env={**image.env, **pip, "DEBIAN_FRONTEND": "noninteractive"},
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    mounted.rmdir()


SETTING_UP = """
set -e
image_path=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount -t tmpfs -o mode=1777 tmpfs {root}/tmp
mount --bind {state} {root}/var/lib/shunter
mount -t tmpfs -o mode=755 tmpfs {root}/dev
for device in null zero urandom; do
    touch {root}/dev/$device
    mount --bind /dev/$device {root}/dev/$device
done
mkdir -m 1777 {root}/dev/shm
mount -o remount,bind,ro {root}
exec chroot --userspec={user} {root} \\
    /usr/bin/env PATH="$image_path" /bin/sh -c 'cd {folder} && exec "$@"' sh "$@"
"""


def run(image: Image, state: Path, words: list[str], **pipes: int) -> subprocess.Popen[bytes]:
    """Start the image as an engine would: its user, process 1, no network, a read-only root."""
    script = SETTING_UP.format(root=image.root, state=state, user=image.user, folder=image.folder)
    unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
    return subprocess.Popen(
        [*unshare, "sh", "-c", script, "sh", *words],
        env=image.env,
        stdout=pipes.get("stdout"),
        stderr=pipes.get("stderr"),
    )


FACTS = """
import json, os, shutil
from importlib.util import find_spec
facts = {
    "uid": os.getuid(), "gid": os.getgid(), "pid": os.getpid(),
    "tools": [t for t in ("gcc", "cc", "make", "pip", "pip3", "curl") if shutil.which(t)],
    "modules": [m for m in ("pip", "setuptools", "ensurepip") if find_spec(m)],
    "writable": [p for p in ("/opt/shunter", "/etc", "/usr", "/") if os.access(p, os.W_OK)],
}
print(json.dumps(facts))
"""

HEALTHY = """
import subprocess, sys, time
dispatcher = subprocess.Popen(sys.argv[1].split())
check, deadline = sys.argv[2].split(), time.monotonic() + 60
before = subprocess.run(check, capture_output=True).returncode
while subprocess.run(check, capture_output=True).returncode:
    if time.monotonic() > deadline or dispatcher.poll() is not None:
        sys.exit("the dispatcher is not healthy")
    time.sleep(0.2)
dispatcher.terminate()
if dispatcher.wait(30):
    sys.exit("the dispatcher did not end well")
print(f"health check: {before} before it listened, 0 then; it ended with 0")
"""


def try_out(image: Image, folder: Path) -> None:
    """Check what the image is, that its health check tells, and that a job gets through it."""
    uid, gid = map(int, image.user.split(":"))
    state = folder / "state"
    state.mkdir(mode=0o700)
    os.chown(state, uid, gid)
    for path in (folder, *folder.parents):
        if path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o005)
    python = "/opt/shunter/bin/python"
    shutil.copy(TRIAL, state / "try_installed.py")
    with run(image, state, [python, "-c", FACTS], stdout=subprocess.PIPE) as asked:
        facts = json.loads(asked.communicate(timeout=60)[0])
    print(facts)
    wanted = {"uid": uid, "gid": gid, "pid": 1, "tools": [], "modules": [], "writable": []}
    if found := {key: facts[key] for key in wanted if facts[key] != wanted[key]}:
        sys.exit(f"the image is not as it should be: {found}")
    command = [*image.entrypoint, *image.command]
    _expect_success(
        image, state, [python, "-c", HEALTHY, shlex.join(command), " ".join(image.health)]
    )
    _expect_success(image, state, [python, "-I", "/var/lib/shunter/try_installed.py"])
    with run(image, state, command, stderr=subprocess.PIPE) as alone:  # as process 1
        assert alone.stderr is not None
        for line in alone.stderr:
            if b'"ready"' in line:
                break
        _signal_inside(alone.pid)
        if code := alone.wait(30):
            sys.exit(f"the dispatcher as process 1 ended with {code} after SIGTERM")
    print("a job went through; as process 1 it ends at once when asked to")


def _signal_inside(pid: int) -> None:
    """Send SIGTERM to process 1 of the namespace that `unshare` has made."""
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(child), 15)


def _expect_success(image: Image, state: Path, words: list[str]) -> None:
    if code := run(image, state, words).wait(180):
        sys.exit(f"{words[:3]} ended with {code}")


def make_base(folder: Path) -> None:
    """The least that Debian 12 is, which is what the image's base has, too."""
    words = ["debootstrap", "--variant=minbase", "bookworm", str(folder)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", type=Path, help="a debootstrapped root, made if it is not there")
    chosen = parser.parse_args()
    if os.geteuid() != 0 or not (PROJECT / "dist" / "SHA256SUMS").exists():
        sys.exit("it needs root, and what make release leaves in dist/")
    with tempfile.TemporaryDirectory(prefix="shunter-container-") as temporary:
        folder = Path(temporary)
        base = chosen.base or folder / "base"
        if not base.exists():
            make_base(base)
        wheels = folder / "wheels"
        pins = PROJECT / "deploy" / "container" / "requirements.txt"
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes",
             "--only-binary", ":all:", "-d", str(wheels), "-r", str(pins)],
            check=True,
        )  # fmt: skip
        image = build(base, folder, wheels)
        try_out(image, folder)


if __name__ == "__main__":
    main()
