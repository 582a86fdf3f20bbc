#!/usr/bin/env python3
"""Checks the manifests of configs/k8s/ without a cluster.

    scripts/check_k8s.py [MANIFEST ...] [--venv FOLDER] [--try]

Holds each document against Kubernetes' own JSON schemas, of the oldest and the newest version named below, in the
strict form that knows no other keys (from the package kubernetes-validate, which ships them; it is installed into
FOLDER, or into one that is removed). Then what no schema knows: that Service, Job, volumes and variables name each
other. With --try, runs the container's script too, one process for each pod of the Job (the binary is TRAINER, default
target/release/trainer): to the end, and with all pods told to go in the middle, as when the Job is suspended; the
weights must be those of a run on one node. Exits 1 on any error.
"""

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "kubernetes-validate==1.34.1"
# podFailurePolicy is stable since the first; the second is the newest that the package knows.
VERSIONS = ("1.31", "1.34")
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# Tells this script that it runs where the package is.
INSIDE = "CHECK_K8S_INSIDE"
PAUSED = 75


def install(folder):
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE], check=True, timeout=600)
    return python


def read(path):
    import yaml

    class Loader(yaml.SafeLoader):
        """The last of two equal keys would win, in silence."""

        def construct_mapping(self, node, deep=False):
            keys = [self.construct_object(key) for key, _ in node.value]
            twice = sorted({str(key) for key in keys if keys.count(key) > 1})
            if twice:
                raise yaml.constructor.ConstructorError(None, None, f"{', '.join(twice)} is there twice", node.start_mark)
            return super().construct_mapping(node, deep)

    return [document for document in yaml.load_all(path.read_text(), Loader) if document is not None]


def schema_faults(documents):
    import kubernetes_validate

    for document in documents:
        name = f"{document.get('kind')} {document.get('metadata', {}).get('name')}"
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                place = ".".join(str(part) for part in error.path) or "top level"
                yield f"{name}, Kubernetes {version}: {place}: {error.message}"
            except kubernetes_validate.SchemaNotFoundError as error:
                yield f"{name}: {error.message}"


def variables(container):
    return {variable["name"]: variable for variable in container.get("env", [])}


def contradictions(documents):
    """What the parts say of each other, of each Job that is Indexed."""
    named = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    jobs = [document for (kind, _), document in named.items() if kind == "Job"]
    if not jobs:
        yield "there is no Job"
    for job in jobs:
        name, spec = job["metadata"]["name"], job["spec"]
        template = spec["template"]
        pod = template["spec"]
        containers = {container["name"]: container for container in pod["containers"]}
        service = named.get(("Service", pod.get("subdomain")))

        def differs(what, found, expected):
            return [f"Job {name}: {what} is {found!r}, not {expected!r}"] if found != expected else []

        yield from differs("completionMode", spec.get("completionMode"), "Indexed")
        yield from differs("parallelism", spec.get("parallelism"), spec.get("completions"))
        if service is None:
            yield f"Job {name}: subdomain {pod.get('subdomain')!r} is no Service here"
        else:
            labels = template["metadata"].get("labels", {})
            yield from differs("clusterIP of its Service", service["spec"].get("clusterIP"), "None")
            yield from differs("publishNotReadyAddresses of its Service", service["spec"].get("publishNotReadyAddresses"), True)
            for key, value in service["spec"].get("selector", {}).items():
                yield from differs(f"label {key}", labels.get(key), value)
        for container in containers.values():
            env = variables(container)
            value = {key: variable.get("value") for key, variable in env.items()}
            yield from differs("MASTER_ADDR", value.get("MASTER_ADDR"), f"{name}-0.{pod.get('subdomain')}")
            yield from differs("WORLD_SIZE", value.get("WORLD_SIZE"), str(spec.get("completions")))
            rank = env.get("RANK", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            yield from differs("the field of RANK", rank, INDEX)
            ports = [str(port["containerPort"]) for port in container.get("ports", [])]
            if value.get("MASTER_PORT") not in ports:
                yield f"Job {name}: MASTER_PORT {value.get('MASTER_PORT')} is none of the ports {', '.join(ports)}"
            if "secretKeyRef" not in env.get("TRAINER_TOKEN", {}).get("valueFrom", {}):
                yield f"Job {name}: TRAINER_TOKEN does not come from a Secret"
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"Job {name}: there is no volume {mount['name']}"
        for volume in pod.get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and ("PersistentVolumeClaim", claim) not in named:
                yield f"Job {name}: there is no PersistentVolumeClaim {claim} here"
        rules = spec.get("podFailurePolicy", {}).get("rules", [])
        for rule in rules:
            container = rule.get("onExitCodes", {}).get("containerName")
            if container and container not in containers:
                yield f"Job {name}: podFailurePolicy names no container: {container}"
        if rules:
            yield from differs("restartPolicy, with podFailurePolicy,", pod.get("restartPolicy"), "Never")
        if pod.get("terminationGracePeriodSeconds", 30) < 60:
            yield f"Job {name}: a pause may take longer than terminationGracePeriodSeconds"


class Pods:
    """The pods of a Job as processes of this machine."""

    def __init__(self, job, folder, trainer):
        container = job["spec"]["template"]["spec"]["containers"][0]
        self.command = [*container["command"], *container["args"]]
        self.count, self.folder, self.trainer = job["spec"]["completions"], Path(folder), trainer
        self.env = {key: value["value"] for key, value in variables(container).items() if "value" in value}
        (self.folder / "bin").mkdir()
        (self.folder / "bin/trainer").symlink_to(trainer)
        text = (ROOT / "configs/digits.toml").read_text()
        for before, after in (("shards = 2 ", f"shards = {self.count} "), ("epochs = 15\n", "epochs = 8\n")):
            if before not in text:
                sys.exit(f"configs/digits.toml no longer says `{before.strip()}`")
            text = text.replace(before, after)
        # Each step in the journal, so that the middle of the run can be seen.
        (self.folder / "config.toml").write_text(text + '\n[log]\nevery = "1 step"\n')

    def start(self, runs):
        token = secrets.token_hex(32)
        self.runs = self.folder / runs
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        here = {"CONFIG": str(self.folder / "config.toml"), "RUNS": str(self.runs), "MASTER_ADDR": "127.0.0.1",
                "POD_IP": "127.0.0.1", "TRAINER_TOKEN": token, "PATH": path}
        # A process group each, so that nothing of a pod outlives it, as in a container.
        return [subprocess.Popen(self.command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env={**os.environ, **self.env, **here, "RANK": str(index)}) for index in range(self.count)]

    def finish(self, pods):
        codes = [pod.wait(240) for pod in pods]
        self.end(pods)
        return codes

    def end(self, pods):
        for pod in pods:
            try:
                os.killpg(pod.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def shown(self, runs):
        out = subprocess.run([self.trainer, "show", "latest", "--runs-dir", str(self.folder / runs), "--json"], capture_output=True, text=True)
        return json.loads(out.stdout) if out.returncode == 0 else {}

    def await_step(self, step):
        until = time.time() + 120
        while time.time() < until:
            if any(f'"step_finished":{{"step":{step},' in journal.read_text() for journal in self.runs.glob("*/events.jsonl")):
                return
            time.sleep(0.05)
        sys.exit(f"FAILED: step {step} is not reached")


def try_script(documents):
    trainer = str(Path(os.environ.get("TRAINER", ROOT / "target/release/trainer")).resolve())
    job = next(document for document in documents if document["kind"] == "Job")
    with tempfile.TemporaryDirectory() as folder:
        pods = Pods(job, folder, trainer)
        subprocess.run([trainer, "run", f"{folder}/config.toml", "--quiet", "--runs-dir", f"{folder}/alone"], cwd=ROOT, check=True, timeout=240)
        expected = pods.shown("alone")["model_sha256"]
        running = []

        def again(runs):
            running[:] = pods.start(runs)
            return running

        def report(what, codes, want_code, want_state):
            shown = pods.shown(pods.runs.name)
            state, same = shown.get("state"), shown.get("model_sha256") == expected
            good = set(codes) == {want_code} and state == want_state and (same or want_state != "completed")
            weights = f", weights {'identical' if same else 'DIFFERENT'}" if want_state == "completed" else ""
            print(f"{what}: exit codes {codes}, run {state} at step {shown.get('step')}: {shown.get('reason')}{weights}", flush=True)
            return [] if good else [f"{what}: expected exit code {want_code} and a run that is {want_state}"]

        try:
            yield from report("to the end", pods.finish(again("calm")), 0, "completed")
            again("suspended")
            pods.await_step(30)
            for pod in running:
                pod.send_signal(signal.SIGTERM)
            yield from report("told to go", pods.finish(running), PAUSED, "paused")
            if "paused with a checkpoint" not in pods.shown("suspended").get("reason", ""):
                yield "told to go: it did not pause with a checkpoint"
            yield from report("gone on with", pods.finish(again("suspended")), 0, "completed")
            yield from report("once more", pods.finish(again("suspended")), 0, "completed")
        finally:
            pods.end(running)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("manifests", nargs="*", type=Path)
    parser.add_argument("--venv", type=Path)
    parser.add_argument("--try", dest="tries", action="store_true")
    args = parser.parse_args()
    if INSIDE not in os.environ:
        with tempfile.TemporaryDirectory() as scratch:
            python = install(args.venv or Path(scratch))
            sys.exit(subprocess.run([python, __file__, *sys.argv[1:]], env={**os.environ, INSIDE: "1"}).returncode)
    import yaml

    found = 0
    for path in args.manifests or sorted((ROOT / "configs/k8s").glob("*.yaml")):
        try:
            documents = read(path)
            faults = list(schema_faults(documents)) or list(contradictions(documents))
            if not faults and args.tries:
                faults = list(try_script(documents))
        except (OSError, yaml.YAMLError) as error:
            documents, faults = [], [str(error)]
        for fault in faults:
            print(f"{path}: {fault}")
        print(f"{path}: {len(documents)} documents, Kubernetes {' and '.join(VERSIONS)}: {'FAILED' if faults else 'passed'}")
        found += len(faults)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
