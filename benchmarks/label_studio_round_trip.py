"""A round trip through a Label Studio server: import of tasks, answers, export, and a fit.

Starts a server on a free port, with its data in a temporary folder, and makes a project of pages
and one of pairs about images of digits (two of the four digits look similar). Two simulated people
answer through the API (one careful, one who guesses), one annotation is cancelled, and a model
predicts all pairs. Then both projects are exported as JSON, read with ``LabelStudio``, and fitted.
Label Studio pins many packages, so install it in a separate environment:

    python -m venv label_studio
    label_studio/bin/pip install label-studio
    python benchmarks/label_studio_round_trip.py --program label_studio/bin/label-studio

A running server can be used instead: ``--address http://localhost:8080 --token TOKEN``, with legacy
tokens enabled in its organization.

Last line: one JSON object: the server's version, numbers of tasks and answers, and the accuracy of
the fit without and with these answers.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from pyro_crowdclust import cluster
from pyro_crowdclust.asking import Pages, Pairs, suggest
from pyro_crowdclust.exchange import LabelStudio, picture_frame
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import GaussianComponents

# How often each of the two people is right.
CAREFUL, GUESSING = 0.95, 0.3


class Server:
    """A server's API, with the token of a user."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address.rstrip("/"), token

    def call(self, method: str, path: str, content: Any = None) -> Any:
        """The response of the server, from JSON."""
        headers = {"Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            f"{self.address}{path}", data=data, headers=headers, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")


@contextmanager
def started(program: str, seconds: float) -> Iterator[Server]:
    """Start a server, which is stopped at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(20)
    settings = {
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
        "COLLECT_ANALYTICS": "False",
        "LATEST_VERSION_CHECK": "False",
    }
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w") as log:
        command = [program, "start", "--no-browser", "--port", str(port), "--data-dir", folder]
        command += ["--username", "ann@example.org", "--password", secrets.token_hex(8)]
        process = subprocess.Popen(
            [*command, "--user-token", token],
            env=os.environ | settings,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        server = Server(f"http://127.0.0.1:{port}", token)
        try:
            wait_for(server, process, seconds)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_for(server: Server, process: subprocess.Popen, seconds: float) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            server.call("GET", "/api/projects")
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start in {seconds} s: {error}") from error
            time.sleep(1)


def second_person(server: Server) -> int:
    """Number of another user of the organization."""
    email = f"{secrets.token_hex(4)}@example.org"
    user = {"email": email, "username": email, "password": secrets.token_hex(8)}
    return server.call("POST", "/api/users/", user)["id"]


def project(server: Server, form: LabelStudio, title: str, questions: pd.DataFrame, items: Any):
    """A new project with its tasks imported; its number, and the tasks as the server has them."""
    configuration = form.configuration(questions, items)
    made = server.call("POST", "/api/projects", {"title": title, "label_config": configuration})
    tasks = form.tasks(questions, items)
    server.call("POST", f"/api/projects/{made['id']}/import", tasks)
    listed = server.call("GET", f"/api/tasks?project={made['id']}&fields=all&page_size=1000")
    listed = listed["tasks"] if isinstance(listed, dict) else listed
    assert len(listed) == len(tasks)
    return made["id"], listed


def exported(server: Server, number: int) -> list[dict[str, Any]]:
    """A snapshot of a project with whole predictions; plain exports have only their numbers."""
    whole = {"serialization_options": {"predictions": {"only_id": False}}}
    snapshot = server.call("POST", f"/api/projects/{number}/exports", whole)
    place = f"/api/projects/{number}/exports/{snapshot['id']}"
    while server.call("GET", place)["status"] in ("created", "in_progress"):
        time.sleep(0.5)
    return server.call("GET", f"{place}/download?exportType=JSON")


def answer_page(data: dict[str, Any], kinds: dict[str, int], right: float, rng) -> dict[str, Any]:
    """Groups of the items of a page, by their digit or at random."""
    buckets: dict[str, list[str]] = {}
    for entry in data["list"]:
        kind = kinds[entry["id"]] if rng.random() < right else rng.integers(4)
        buckets.setdefault(str(kind + 1), []).append(entry["id"])
    value = {"ranker": buckets}
    return {"from_name": "groups", "to_name": "items", "type": "ranker", "value": value}


def answer_pair(data: dict[str, Any], kinds: dict[str, int], right: float, rng) -> dict[str, Any]:
    """Whether two items are the same digit, or a guess."""
    same = kinds[data["left"]] == kinds[data["right"]]
    said = same if rng.random() < right else rng.random() < 0.5
    value = {"choices": ["same" if said else "different"]}
    return {"from_name": "answer", "to_name": "image_1", "type": "choices", "value": value}


def round_trip(server: Server, num_items: int, num_pages: int, num_pairs: int) -> dict[str, Any]:
    """Ask, answer, export and fit; returns the figures."""
    rng = np.random.default_rng(0)
    digits = load_digits()
    rows = np.flatnonzero(np.isin(digits.target, [1, 3, 8, 9]))[:num_items]
    truth = pd.factorize(digits.target[rows])[0]
    ids = pd.Index([f"digit-{row}" for row in rows])
    kinds = dict(zip(ids, truth, strict=True))
    reduced = PCA(10, random_state=0).fit_transform(digits.data[rows])
    features = pd.DataFrame(reduced, ids, [f"direction {k}" for k in range(10)])
    items = picture_frame(digits.images[rows], ids)
    fitted = partial(cluster, features, components=GaussianComponents, num_clusters=8)
    before = fitted(progress=False)

    people = {
        server.call("GET", "/api/current-user/whoami")["id"]: ("ann", CAREFUL),
        second_person(server): ("guesser", GUESSING),
    }
    form = LabelStudio(num_groups=5, workers={number: name for number, (name, _) in people.items()})
    exports = {}
    for title, kind, count, answer in (
        ("pages", Pages(12), num_pages, answer_page),
        ("pairs", Pairs(), num_pairs, answer_pair),
    ):
        questions = suggest(before, kind, count=count).frame
        number, tasks = project(server, form, title, questions, items)
        for place, task in enumerate(tasks):
            for user, (_, right) in people.items():
                result = answer(task["data"], kinds, right, rng)
                cancelled = place == 0 and right == GUESSING
                server.call(
                    "POST",
                    f"/api/tasks/{task['id']}/annotations/",
                    {
                        "result": [result],
                        "completed_by": user,
                        "lead_time": 4.5,
                        "was_cancelled": cancelled,
                    },
                )
            if kind == Pairs():
                result = answer(task["data"], kinds, CAREFUL, rng)
                predicted = {"task": task["id"], "model_version": "judge", "result": [result]}
                server.call("POST", "/api/predictions", predicted)
        exports[title] = exported(server, number)

    pages, pairs = (form.answers(exports[title]) for title in ("pages", "pairs"))
    fits = {
        "pages": fitted(progress=False, **pages.tables()),
        "pairs": fitted(progress=False, **pairs.tables()),
    }
    return {
        "pages": num_pages,
        "placements": len(pages.placements),
        "pairs": num_pairs,
        "answers": len(pairs.pairs),
        "workers": sorted(pairs.pairs["worker"].unique()),
        "cancelled": len(pages.unanswered) + len(pairs.unanswered),
        "seconds_kept": float(pages.placements["seconds"].max()),
        "accuracy": {
            "none": clustering_accuracy(truth, before.assignments),
            **{name: clustering_accuracy(truth, fit.assignments) for name, fit in fits.items()},
        },
        "weight_of_workers": fits["pairs"].workers["weight"].round(2).to_dict(),
    }


def main() -> None:
    """Run it on a new server, or on a running one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", default="label-studio", help="of the server to start")
    parser.add_argument("--address", help="of a running server")
    parser.add_argument("--token", help="of a user of that server")
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument(
        "--patience", type=float, default=600, help="seconds for the server's start"
    )
    options = parser.parse_args()
    sizes = options.items, options.pages, options.pairs
    if options.address is not None:
        server = Server(options.address, options.token)
        found = round_trip(server, *sizes)
        version = server.call("GET", "/api/version")["release"]
    else:
        with started(options.program, options.patience) as server:
            found = round_trip(server, *sizes)
            version = server.call("GET", "/api/version")["release"]
    print(json.dumps({"label_studio": version, **found}))


if __name__ == "__main__":
    main()
