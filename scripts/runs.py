"""What the scripts that start runs have in common. TRAINER names the binary (default target/release/trainer)."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAINER = os.environ.get("TRAINER", str(ROOT / "target/release/trainer"))


def trainer(*words):
    """Runs a command to its end; gives what it printed."""
    return subprocess.run([TRAINER, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def settings(changes):
    """Options that change keys of a config."""
    return [word for change in changes for word in ("--set", change)]


def shown(folder):
    """What is known of the newest run of a folder."""
    return json.loads(trainer("show", "latest", "--runs-dir", str(folder), "--json"))


def events(journal):
    """The events of a journal that may still be written to: a last line without end is left out."""
    lines = Path(journal).read_text().split("\n")[:-1]
    return [json.loads(line)["event"] for line in lines]


def train_alone(config, folder, changes):
    """Trains with one worker, undisturbed; gives the hash of the weights."""
    trainer("run", config, "--quiet", "--runs-dir", str(folder), *settings(changes))
    return shown(folder)["model_sha256"]
