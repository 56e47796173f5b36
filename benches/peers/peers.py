"""What the scripts share: the environment; for text, also measurements in child processes and tables."""

import argparse
import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
DATA = TARGET / "peers"
REQUIREMENTS = Path(__file__).with_name("requirements-text.txt")
ENVIRONMENT = TARGET / "peers-text-venv"


class CannotRun(Exception):
    """A program is missing or failed."""


def enter_environment(script, environment=ENVIRONMENT, requirements=REQUIREMENTS, each=True):
    """Create the virtual environment if it is missing or out of date, and restart `script` inside it.

    With `each`, requirements are installed one by one, without their dependencies, and those that cannot be are missing peers.
    """
    if Path(sys.prefix).resolve() == environment.resolve():
        return
    python = environment / "bin" / "python"
    stamp = environment / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
        print("creating %s" % environment, file=sys.stderr)
        venv.create(environment, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if each:
            packages = [line.strip() for line in requirements.read_text().splitlines()]
            for package in packages:
                if package and not package.startswith("#"):
                    if subprocess.run(install + ["--no-deps", package]).returncode:
                        print("could not be installed: %s" % package, file=sys.stderr)
        elif subprocess.run(install + ["--requirement", str(requirements)]).returncode:
            raise CannotRun("the peers could not be installed from %s" % requirements.relative_to(ROOT))
        stamp.write_text(wanted)
    os.execv(python, [str(python), str(Path(script).resolve())] + sys.argv[1:])


def missing(*modules):
    """Say why a peer cannot be measured, or return None."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return "not installed: %s" % ", ".join(absent) if absent else None


def build(example):
    """Build a driver in release, and return its path."""
    command = ["cargo", "build", "--release", "-p", "byrote", "--example", example]
    try:
        failed = subprocess.run(command, cwd=ROOT).returncode
    except FileNotFoundError:
        failed = True
    if failed:
        raise CannotRun("failed: %s" % " ".join(command))
    return TARGET / "release" / "examples" / example


def driver(given, example):
    """Return the given driver, or build it."""
    if given is None:
        return build(example)
    path = Path(given).resolve()
    if not path.is_file():
        raise CannotRun("%s is not a file" % given)
    return path


def run_child(name, command):
    """Run a measurement, and return the JSON of its last line."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise CannotRun("%s exited with status %d" % (name, done.returncode))
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise CannotRun("%s printed no usable JSON line: %r" % (name, error)) from error


def interleaved(commands, rounds):
    """Run every measurement once per round; returns its results, or why it cannot be run."""
    results = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            if isinstance(command, str):
                results[name] = command
            elif isinstance(results[name], list):
                try:
                    results[name].append(run_child(name, command))
                    print("round %d %-32s %8.3f s" % (number + 1, name, results[name][-1]["seconds"]), file=sys.stderr)
                except CannotRun as error:
                    results[name] = str(error)
    return results


def seconds(runs):
    """The median and the smallest of the seconds of some runs."""
    values = [run["seconds"] for run in runs]
    return statistics.median(values), min(values)


def verdict(what, found, target, at_least=True):
    """Print whether a target is reached."""
    reached = found >= target if at_least else found <= target
    sign = ">=" if at_least else "<="
    print("%-8s %s: %.2f (target %s %g)" % ("reached" if reached else "MISSED", what, found, sign, target))
    return reached


def write_record(name, record):
    """Keep the numbers of a run beside its data."""
    DATA.mkdir(parents=True, exist_ok=True)
    partial = DATA / (name + ".tmp")
    partial.write_text(json.dumps(record, indent=2) + "\n")
    partial.replace(DATA / (name + ".json"))


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
