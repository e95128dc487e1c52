"""Small mistakes in the mathematical core, one at a time, and whether the tests notice.

A mutant is the library with one change in one function: a sign, a factor, a comparison, a
condition, a number, a call left out, or a function in place of a near one. The tests of its file
that call the function run against it, the quickest first, and kill it if one fails. A survivor is a
change that no test sees: a test that is wanting, or a change that changes nothing. Mutants are
drawn at random from all of each file, the same for a seed.

    python tests/mutants.py --each 10

Everything is imported and all tests are collected once. Each mutant is a fork, in which the
function has the code of the mutant.

Last line: one JSON object: ``mutants``, ``killed`` (by a failing test, an error, or by taking ten
times as long), ``survived``, ``share_killed``, ``files`` (mutants and killed ones of each) and
``survivors``, a line of text each.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Files of the mathematical core, and the tests that are about them; of a file that is named twice
# the later ones.
_BOUNDS = "tests/training/test_bounds.py"
CORE = {
    "pyro_crowdclust/families": ["tests/families", "tests/distributions", _BOUNDS],
    "pyro_crowdclust/families/gaps.py": [
        "tests/families/test_gaps.py",
        "tests/mixture/test_gaps.py",
    ],
    "pyro_crowdclust/families/heavy_tailed.py": ["tests/families", "tests/mixture/test_tails.py"],
    "pyro_crowdclust/training/elbo.py": ["tests/training/test_elbo.py"],
    "pyro_crowdclust/training/natural_gradient.py": ["tests/training/test_natural_gradient.py"],
    "pyro_crowdclust/training/held_steps.py": ["tests/training/test_held_steps.py"],
    "pyro_crowdclust/inference": [_BOUNDS, "tests/inference", "tests/guides"],
    "pyro_crowdclust/inference/importance.py": [
        *("tests/models/test_deep_latent_mixture.py", "tests/models/test_deep_classifier.py"),
        "tests/guides/test_structured.py",
    ],
    "pyro_crowdclust/inference/owners.py": ["tests/inference", "tests/mixture/test_ownership.py"],
    "pyro_crowdclust/inference/owners_of_few.py": ["tests/inference/test_owners_of_few.py"],
    "pyro_crowdclust/inference/answer_evidence.py": [
        *("tests/inference/test_answer_evidence.py", "tests/interface/choosing/test_explaining.py"),
    ],
    "pyro_crowdclust/inference/workers.py": ["tests/interface/choosing/test_rereading.py"],
    "pyro_crowdclust/distributions": [
        *(_BOUNDS, "tests/distributions", "tests/annotators", "tests/models", "tests/guides"),
    ],
    "pyro_crowdclust/distributions/plates.py": ["tests/training/test_elbo.py"],
    "pyro_crowdclust/distributions/priors.py": ["tests/callbacks/test_learned_prior.py"],
    "pyro_crowdclust/distributions/row_sites.py": ["tests/guides/test_structured.py"],
    "pyro_crowdclust/distributions/rows.py": ["tests/guides/test_structured.py"],
    "pyro_crowdclust/distributions/draws.py": ["tests/diagnostics"],
    "pyro_crowdclust/distributions/at_mean.py": [
        *(_BOUNDS, "tests/distributions", "tests/training/test_elbo.py"),
    ],
    "pyro_crowdclust/distributions/statistics.py": [
        *(_BOUNDS, "tests/distributions", "tests/training/test_elbo.py"),
    ],
    "pyro_crowdclust/callbacks": ["tests/callbacks", "tests/guides/test_amortized.py"],
    "pyro_crowdclust/partitions": ["tests/partitions", "tests/guides/test_partition.py"],
    "pyro_crowdclust/annotators": [
        *(_BOUNDS, "tests/annotators", "tests/models/test_dawid_skene.py"),
        "tests/pooling/test_drawn_classes.py",
    ],
    "pyro_crowdclust/annotators/cuts.py": [
        *("tests/annotators/test_item_trait.py", "tests/pooling/test_judge_curves.py"),
    ],
    "pyro_crowdclust/annotators/item_trait.py": ["tests/annotators/test_item_trait.py"],
    "pyro_crowdclust/annotators/learned_rows.py": [
        *("tests/models/test_dawid_skene.py", "tests/pooling/test_drawn_classes.py"),
    ],
    "pyro_crowdclust/annotators/sources.py": [
        *("tests/models/test_dawid_skene.py", "tests/pooling/test_drawn_classes.py"),
        "tests/annotators/test_sources.py",
    ],
    "pyro_crowdclust/annotators/sorted_pages.py": ["tests/annotators/test_sorted_pages.py"],
    "pyro_crowdclust/annotators/page_coupling.py": ["tests/annotators/test_sorted_pages.py"],
    "pyro_crowdclust/annotators/pair_sites.py": [
        *(_BOUNDS, "tests/annotators", "tests/guides/test_amortized.py"),
    ],
    "pyro_crowdclust/annotators/page_sites.py": [
        *(_BOUNDS, "tests/annotators", "tests/guides/test_amortized.py"),
    ],
    "pyro_crowdclust/annotators/sites.py": [
        *(_BOUNDS, "tests/annotators", "tests/test_fitting.py"),
    ],
    "pyro_crowdclust/annotators/label_sites.py": [
        *("tests/models/test_dawid_skene.py", "tests/models/test_momresp.py"),
        *("tests/models/test_logresp.py", "tests/diagnostics/test_class_labels.py"),
    ],
    "pyro_crowdclust/annotators/pair_messages.py": ["tests/inference"],
    "pyro_crowdclust/annotators/look_priors.py": ["tests/guides/test_partition.py"],
    "pyro_crowdclust/annotators/pair_looks.py": [
        *("tests/annotators/test_drawn_rates.py", "tests/test_protocols.py"),
        "tests/guides/test_partition.py",
    ],
    "pyro_crowdclust/annotators/pair_summaries.py": ["tests/annotators/test_two_coin.py"],
    "pyro_crowdclust/annotators/lapsing.py": ["tests/annotators/test_lapsing.py"],
    "pyro_crowdclust/annotators/session_sites.py": ["tests/annotators/test_lapsing.py"],
    "pyro_crowdclust/annotators/graded_pairs.py": ["tests/annotators/test_graded_pairs.py"],
    "pyro_crowdclust/annotators/channels.py": [
        *("tests/annotators/test_lapsing.py", "tests/annotators/test_graded_pairs.py"),
    ],
    "pyro_crowdclust/annotators/suited.py": [
        *("tests/annotators/test_lapsing.py", "tests/annotators/test_graded_pairs.py"),
    ],
    "pyro_crowdclust/distributions/lapses.py": ["tests/distributions/test_lapses.py"],
    "pyro_crowdclust/interface/holding_out/page_attention.py": [
        "tests/interface/holding_out/test_page_attention.py"
    ],
    "pyro_crowdclust/asking": [
        *("tests/asking/test_asked.py", "tests/asking/test_beliefs.py"),
        *("tests/asking/test_beliefs_in_loops.py", "tests/asking/test_choices.py"),
        *("tests/asking/test_crowd.py", "tests/asking/test_evidence.py"),
        *("tests/asking/test_information.py", "tests/asking/test_page_teaching.py"),
        *("tests/asking/test_page_questions.py", "tests/asking/test_pair_questions.py"),
        *("tests/asking/test_partitions.py", "tests/asking/test_situation.py"),
        *("tests/asking/test_suggesting.py", "tests/asking/test_teaching.py"),
        *("tests/asking/test_whom.py", "tests/asking/test_worker_counts.py"),
    ],
    "pyro_crowdclust/asking/campaign.py": ["tests/asking/test_campaign.py"],
    "pyro_crowdclust/asking/answering.py": ["tests/asking/test_campaign.py"],
    "guides/message_passing.py": [
        *(_BOUNDS, "tests/guides/test_message_passing.py", "tests/inference"),
        *("tests/mixture/test_ownership.py", "tests/starts/test_principal_components.py"),
        *("tests/guides/test_amortized.py", "tests/supervision/test_class_table.py"),
    ],
    "guides/conjugate.py": [
        *("tests/callbacks", "tests/guides/test_message_passing.py", "tests/supervision"),
        *("tests/models/test_two_way_mixture.py", "tests/models/test_pair_regression.py"),
    ],
    "guides/mixture.py": [
        *("tests/callbacks", "tests/guides/test_message_passing.py", "tests/supervision"),
    ],
    "guides/amortized.py": [
        *("tests/guides/test_amortized.py", "tests/callbacks/test_merge_moves.py"),
        "tests/callbacks/test_rate_moves.py",
        *("tests/inference/test_loss_terms.py", "tests/starts/test_taught.py"),
    ],
    "guides/assignment_sums.py": ["tests/distributions/test_assignments.py"],
    "guides/enumerated.py": ["tests/guides/test_enumerated.py"],
    "pyro_crowdclust/inference/pair_evidence.py": ["tests/inference/test_pair_evidence.py"],
    "guides/structured.py": [
        *("tests/models/test_deep_latent_mixture.py", "tests/models/test_deep_classifier.py"),
        "tests/guides/test_structured.py",
    ],
    "guides/two_way.py": ["tests/models/test_two_way_mixture.py"],
    "guides/pair_regression.py": ["tests/models/test_pair_regression.py"],
    "guides/class_labels.py": [
        *("tests/models/test_dawid_skene.py", "tests/models/test_momresp.py"),
        "tests/models/test_logresp.py",
    ],
    "guides/gibbs.py": [
        *("tests/guides/test_partition.py", "tests/guides/test_partition_steps.py"),
        "tests/guides/test_sorted_partition.py",
    ],
    "guides/named_buffers.py": ["tests/guides/test_partition_steps.py"],
    "guides/partition.py": [
        *("tests/guides/test_partition.py", "tests/guides/test_partition_steps.py"),
        "tests/guides/test_partition_grades.py",
    ],
    "pyro_crowdclust/inference/replicas.py": ["tests/inference/test_replicas.py"],
    "models/answered_partition.py": [
        *("tests/guides/test_partition.py", "tests/guides/test_partition_grades.py"),
    ],
    "models/dawid_skene.py": ["tests/models/test_dawid_skene.py"],
    "models/deep_latent_mixture.py": [
        *("tests/models/test_deep_latent_mixture.py", "tests/models/test_deep_classifier.py"),
        "tests/guides/test_structured.py",
    ],
    "models/latent_trait.py": ["tests/annotators/test_item_trait.py"],
    "models/averaged_predictions.py": ["tests/models/test_averaged_predictions.py"],
    "models/logresp.py": ["tests/models/test_logresp.py"],
    "models/momresp.py": ["tests/models/test_momresp.py", "tests/mixture/test_gaps.py"],
    "models/pair_regression.py": ["tests/models/test_pair_regression.py"],
    "models/semi_crowdsourced_mixture.py": [
        *(_BOUNDS, "tests/mixture/test_collapsed.py", "tests/mixture/test_gaps.py"),
        *("tests/mixture/test_ownership.py", "tests/guides/test_message_passing.py"),
    ],
    "models/two_way_mixture.py": ["tests/models/test_two_way_mixture.py"],
    "pyro_crowdclust/supervision": ["tests/supervision", "tests/mixture/test_collapsed.py"],
    "pyro_crowdclust/minibatches": [
        *("tests/minibatches", "tests/supervision/test_hidden_markov_field.py"),
        "tests/data/test_stored_features.py",
    ],
    "pyro_crowdclust/minibatches/sampler.py": [
        *("tests/minibatches/test_sampler.py", "tests/supervision/test_hidden_markov_field.py"),
    ],
    "pyro_crowdclust/restarts.py": ["tests/test_restarts.py"],
    "pyro_crowdclust/interface/holding_out/pairs.py": [
        *("tests/interface/holding_out/test_pairs.py", "tests/pooling/test_held_out_items.py"),
        "tests/interface/choosing/test_rereading.py",
    ],
    "pyro_crowdclust/interface/choosing/ranking.py": ["tests/interface/choosing/test_climbing.py"],
    "pyro_crowdclust/interface/choosing/climbing.py": ["tests/interface/choosing/test_climbing.py"],
    "pyro_crowdclust/interface/choosing/deciding.py": [
        "tests/interface/choosing/test_deciding.py",
        "tests/interface/choosing/test_clustering_search.py",
        "tests/interface/choosing/test_answer_predictiveness.py",
    ],
    "pyro_crowdclust/interface/choosing/trying.py": [
        "tests/interface/choosing/test_trying.py",
        "tests/interface/choosing/test_clustering_search.py",
    ],
    "pyro_crowdclust/interface/choosing/fixed_components.py": [
        "tests/interface/choosing/test_clustering_search.py",
        "tests/interface/choosing/test_choice.py",
        "tests/interface/holding_out/test_pages.py",
    ],
    "pyro_crowdclust/interface/choosing/clustering_search.py": [
        "tests/interface/choosing/test_clustering_search.py",
        "tests/interface/choosing/test_choice.py",
    ],
    "pyro_crowdclust/interface/choosing/explaining.py": [
        "tests/interface/choosing/test_explaining.py",
    ],
    "pyro_crowdclust/interface/choosing/answer_predictiveness.py": [
        "tests/interface/choosing/test_answer_predictiveness.py"
    ],
    "pyro_crowdclust/interface/choosing/trials.py": [
        *("tests/interface/choosing/test_trials.py", "tests/interface/choosing/test_climbing.py"),
    ],
    "pyro_crowdclust/interface/choosing/overlaps.py": ["tests/interface/choosing/test_overlaps.py"],
    "pyro_crowdclust/interface/class_labels/candidate_average.py": [
        "tests/interface/class_labels/test_candidate_average.py",
    ],
    "pyro_crowdclust/interface/class_labels/trials.py": [
        "tests/interface/class_labels/test_trials.py",
    ],
    "pyro_crowdclust/interface/class_labels/search.py": [
        "tests/interface/class_labels/test_search.py",
        "tests/interface/class_labels/test_classification.py",
    ],
    "pyro_crowdclust/interface/class_labels/trusted_reading.py": [
        "tests/interface/class_labels/test_trusted_reading.py"
    ],
    "pyro_crowdclust/results/agreement.py": ["tests/results/test_agreement.py"],
    "pyro_crowdclust/interface/choosing/subsets.py": ["tests/interface/choosing/test_subsets.py"],
    "pyro_crowdclust/interface/candidates/deviating.py": [
        "tests/interface/candidates/test_deviating.py"
    ],
    "pyro_crowdclust/interface/candidates/near_copies.py": [
        "tests/interface/candidates/test_near_copies.py"
    ],
    "pyro_crowdclust/metrics.py": ["tests/test_metrics.py"],
    "pyro_crowdclust/starts": ["tests/starts"],
    "pyro_crowdclust/transforms": ["tests/transforms"],
    "pyro_crowdclust/diagnostics": [
        *("tests/diagnostics", "tests/pooling/test_averaging.py", "tests/test_restarts.py"),
    ],
    "pyro_crowdclust/pooling/averaging.py": ["tests/pooling/test_averaging.py"],
    "pyro_crowdclust/pooling/calibration.py": [
        *(
            "tests/interface/class_labels/test_infer_classes.py",
            "tests/pooling/test_calibration.py",
        ),
    ],
    "pyro_crowdclust/results/cluster_classes.py": [
        *("tests/interface/choosing/test_overlaps.py", "tests/supervision/test_class_table.py"),
    ],
    "pyro_crowdclust/pooling/comparison.py": ["tests/pooling/test_comparison.py"],
    "pyro_crowdclust/pooling/decisions.py": ["tests/pooling/test_decisions.py"],
    "pyro_crowdclust/pooling/discounted_classes.py": ["tests/pooling/test_discounted_classes.py"],
    "pyro_crowdclust/pooling/labels_together.py": ["tests/pooling/test_discounted_classes.py"],
    "pyro_crowdclust/pooling/drawn_classes.py": ["tests/pooling/test_drawn_classes.py"],
    "pyro_crowdclust/results/drawn_partition.py": ["tests/results/test_drawn_partition.py"],
    "pyro_crowdclust/pooling/matches.py": ["tests/pooling/test_matches.py"],
    "pyro_crowdclust/pooling/judge_curves.py": ["tests/pooling/test_judge_curves.py"],
    "pyro_crowdclust/pooling/soft_answers.py": ["tests/pooling/test_soft_answers.py"],
    "pyro_crowdclust/mixture": [
        *("tests/mixture/test_components.py", "tests/callbacks/test_learned_prior.py"),
        *("tests/mixture/test_gaussian.py", "tests/mixture/test_mixed.py"),
        "tests/mixture/test_tails.py",
    ],
    "pyro_crowdclust/mixture/checks.py": [
        *("tests/mixture/test_components.py", "tests/mixture/test_memory.py"),
        *("tests/mixture/test_tails.py", "tests/mixture/test_ownership.py"),
    ],
    "pyro_crowdclust/mixture/collapsed.py": ["tests/mixture/test_collapsed.py"],
    "pyro_crowdclust/mixture/components.py": [
        *("tests/mixture/test_components.py", "tests/mixture/test_gaps.py"),
        *("tests/mixture/test_gaussian.py", "tests/mixture/test_mixed.py"),
    ],
    "pyro_crowdclust/mixture/memory.py": ["tests/mixture/test_memory.py"],
    "pyro_crowdclust/mixture/nearness.py": ["tests/callbacks/test_nearby_owners.py"],
    "pyro_crowdclust/mixture/orders.py": ["tests/mixture/test_orders.py"],
    "pyro_crowdclust/mixture/overlap.py": ["tests/mixture/test_overlap.py"],
    "pyro_crowdclust/mixture/ownership.py": ["tests/mixture/test_ownership.py"],
    "pyro_crowdclust/mixture/sites.py": [_BOUNDS, "tests/mixture/test_ownership.py"],
    "pyro_crowdclust/mixture/softmax_regression.py": [
        *("tests/models/test_logresp.py", "tests/models/test_pair_regression.py"),
    ],
    "pyro_crowdclust/mixture/weights.py": ["tests/mixture/test_weights.py"],
}

_OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OPPOSITE = {
    **{ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
}
_OTHER_NAME = {
    **{"logsumexp": "amax", "mean": "sum", "sum": "mean", "max": "min", "min": "max"},
    **{"argmax": "argmin", "clamp_min": "clamp_max", "digamma": "lgamma", "lgamma": "digamma"},
    **{"softmax": "sigmoid", "log_softmax": "log"},
}
# Calls without arguments that may be forgotten.
_FORGOTTEN = {"detach", "log", "exp", "square", "sqrt", "neg", "reciprocal"}


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    """What a node may be by mistake, and how to make it so."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OTHER_OPERATOR:
        yield "operator", lambda n: _with(n, op=_OTHER_OPERATOR[type(n.op)]())
    is_sign = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not)
    if is_sign and not isinstance(node.operand, ast.Constant):
        yield "sign", lambda n: n.operand
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OPPOSITE:
        yield "comparison", lambda n: _with(n, ops=[_OPPOSITE[type(n.ops[0])](), *n.ops[1:]])
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or", lambda n: _with(n, op=other)
    if isinstance(node, ast.BinOp):
        for side in ("left", "right"):
            number = getattr(node, side)
            if isinstance(number, ast.Constant) and type(number.value) in (int, float):
                changed = ast.Constant(number.value + 1)
                yield "number", lambda n, side=side, c=changed: _with(n, **{side: c})
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in _OTHER_NAME:
            function = _with(node.func, attr=_OTHER_NAME[name])
            yield "function", lambda n, f=function: _with(n, func=f)
        if name in _FORGOTTEN and not node.args:
            yield "call", lambda n: n.func.value
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "statement", lambda n: ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_check(node: ast.AST) -> bool:
    """Whether something is refused here, and nothing else is done."""
    return isinstance(node, ast.If) and all(isinstance(one, ast.Raise) for one in node.body)


class _Spots(ast.NodeVisitor):
    """What functions compute: no annotations, defaults, decorators and errors."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, int, ast.FunctionDef]] = []
        self._function: ast.FunctionDef | None = None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.FunctionDef):
            if node.name in ("check", "__repr__"):
                return
            outer, self._function = self._function, self._function or node
            for statement in node.body:
                self.visit(statement)
            self._function = outer
            return
        in_constructor = self._function and self._function.name in ("__init__", "__post_init__")
        if in_constructor and _is_check(node):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
            return
        if self._function is not None:
            for number, _ in enumerate(_changes(node)):
                self.found.append((node, number, self._function))
        self.generic_visit(node)


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, change: Callable[[ast.AST], ast.AST]) -> None:
        self._node, self._change = node, change

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._node:
            return ast.fix_missing_locations(ast.copy_location(self._change(node), node))
        return self.generic_visit(node)


@dataclass(frozen=True)
class Mutant:
    """One change in one function of a file, from its first line (or decorator) to its last."""

    file: str
    line: int
    before: str
    after: str
    tree: ast.Module
    function: range

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.before} -> {self.after}"


def mutants_of(file: str) -> list[Mutant]:
    """All that a file may be by one mistake."""
    text = (ROOT / file).read_text(encoding="utf-8")
    spots = _Spots()
    spots.visit(ast.parse(text))
    made = []
    for place in range(len(spots.found)):
        tree = ast.parse(text)
        own = _Spots()
        own.visit(tree)
        node, number, function = own.found[place]
        before, change = ast.unparse(node), list(_changes(node))[number][1]
        after = ast.unparse(ast.fix_missing_locations(ast.copy_location(change(node), node)))
        first = min(one.lineno for one in (function, *function.decorator_list))
        lines = range(first, function.end_lineno + 1)
        tree = _Replace(node, change).visit(tree)
        made.append(Mutant(file, node.lineno, before, after, tree, lines))
    return made


def functions_of(file: Path) -> list[FunctionType]:
    """All functions whose code is in a file, those behind decorators too."""
    everything = (one for one in gc.get_objects() if type(one) is FunctionType)
    return [one for one in everything if one.__code__.co_filename == str(file)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def put_in_place(mutant: Mutant, functions: list[FunctionType]) -> None:
    """Give the changed function, which somebody may have imported already, the mutant's code."""
    module = compile(mutant.tree, str(ROOT / mutant.file), "exec", dont_inherit=True)
    codes = [code for code in _codes(module) if code.co_firstlineno in mutant.function]
    code = min(codes, key=lambda code: code.co_qualname.count("."))
    changed = [
        function
        for function in functions
        if function.__code__.co_firstlineno in mutant.function
        and function.__code__.co_qualname == code.co_qualname
    ]
    assert changed, f"nothing that was imported is {mutant}"
    for function in changed:
        function.__code__ = code


class Session:
    """The plugin of a pytest session that runs its tests against mutants, each in a fork."""

    def __init__(self, drawn: dict[str, list[Mutant]], tests: dict[str, list[str]]) -> None:
        self._drawn, self._tests = drawn, tests
        self._calls: dict[str, set[str]] = {}
        self._seconds: dict[str, float] = {}
        self.killed = dict.fromkeys(drawn, 0)
        self.survivors: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own, which would run each test once."""
        assert not session.testsfailed, "tests that cannot be collected"
        items = {item.nodeid: item for item in session.items}
        with tempfile.TemporaryDirectory() as folder:
            seen = Path(folder) / "seen.json"
            if _fails(lambda: self._watch(session.items, seen)):
                raise RuntimeError("tests fail without any mutant")
            self._calls, self._seconds = json.loads(seen.read_text())
        print(f"{len(items)} tests in {sum(self._seconds.values()):.0f} s", flush=True)
        for file, mutants in self._drawn.items():
            functions = functions_of(ROOT / file)
            for mutant in mutants:
                own = [items[test] for test in self._tests_of(mutant)]
                limit = 10 * sum(self._seconds[item.nodeid] for item in own) + 10
                if _fails(lambda m=mutant, o=own, f=functions: _run_against(m, o, f), limit):
                    self.killed[file] += 1
                else:
                    self.survivors.append(str(mutant))
                    print(f"SURVIVED {len(own)} tests: {mutant}", flush=True)
            print(f"{file}: {self.killed[file]} of {len(mutants)} killed", flush=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first failure ends the fork that it is in."""
        if report.failed:
            os._exit(1)

    def _watch(self, items: list[pytest.Item], seen: Path) -> None:
        """Keep how long each test takes, and the tests that call each function of ours."""
        calls: dict[str, dict[str, None]] = {}
        seconds = {}
        for item, following in pairwise([*items, None]):

            def see(
                frame: FrameType, event: str, argument: object, test: str = item.nodeid
            ) -> None:
                if frame.f_code.co_filename.startswith(str(ROOT)):
                    place = f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}"
                    calls.setdefault(place, {})[test] = None

            started = time.perf_counter()
            sys.settrace(see)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            seconds[item.nodeid] = time.perf_counter() - started
        seen.write_text(json.dumps([{place: [*own] for place, own in calls.items()}, seconds]))

    def _tests_of(self, mutant: Mutant) -> list[str]:
        places = (f"{ROOT / mutant.file}:{line}" for line in mutant.function)
        calling = {test for place in places for test in self._calls.get(place, [])}
        own = [test for test in calling if test.startswith(tuple(self._tests[mutant.file]))]
        return sorted(own, key=self._seconds.__getitem__)


def _run_against(mutant: Mutant, items: list[pytest.Item], functions: list[FunctionType]) -> None:
    put_in_place(mutant, functions)
    for item, following in pairwise([*items, None]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _fails(run: Callable[[], None], limit: float = math.inf) -> bool:
    """Whether a fork of this process fails, or takes longer than the limit."""
    child = os.fork()
    if not child:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        try:
            run()
        except BaseException:
            os._exit(1)
        os._exit(0)
    ends = time.perf_counter() + limit
    while time.perf_counter() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Draw mutants, run their tests, list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=10, help="draw so many mutants of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only files whose path begins so")
    options = parser.parse_args(arguments)
    files: dict[str, list[str]] = {}
    for start, tests in CORE.items():
        path = ROOT / start
        found = [path] if path.suffix else sorted(path.glob("*.py"))
        files |= {str(file.relative_to(ROOT)): tests for file in found}
    drawn = {}
    for file in files:
        every = mutants_of(file) if file.startswith(options.only) else []
        if every:
            chosen = random.Random(options.seed).sample(every, min(options.each, len(every)))
            drawn[file] = chosen
            print(f"{file}: {len(every)} mutants, {len(chosen)} drawn", flush=True)
    session = Session(drawn, files)
    tests = sorted({test for file in drawn for test in files[file]})
    quiet = ["-s", "-qq", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    if pytest.main([*quiet, *tests], plugins=[session]):
        raise RuntimeError("the tests did not run")
    count, killed = sum(map(len, drawn.values())), sum(session.killed.values())
    figures = {
        "mutants": count,
        "killed": killed,
        "survived": len(session.survivors),
        "share_killed": round(killed / max(count, 1), 3),
        "files": {file: [len(drawn[file]), session.killed[file]] for file in drawn},
        "survivors": session.survivors,
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
