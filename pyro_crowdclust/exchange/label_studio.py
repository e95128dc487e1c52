"""The format of Label Studio: tasks, a labelling configuration, and its JSON export."""

from __future__ import annotations

import html
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import quoteattr

from pyro_crowdclust.errors import warn
from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers, GivenAnswer
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.json_records import Record, dump_json, parse_json, records
from pyro_crowdclust.exchange.questions import (
    CANNOT_TELL,
    DIFFERENT,
    SAME,
    LabelQuestion,
    PageQuestion,
    PairQuestion,
    Question,
    Questions,
    class_names,
    is_no_answer,
    question_about,
    read_questions,
)

# Names of the controls in the configuration, and of their results in the export.
_CHOICE, _GROUPS = "answer", "groups"
# The ranker's name for items that were left in the list.
_NOT_MOVED = "_"


@dataclass(frozen=True)
class LabelStudio:
    """Label Studio's tasks, its labelling configuration, and its JSON export.

    Pairs and labels are choices; pages are lists of items to be moved to buckets. The answers are
    the annotations of all people, except cancelled ones, and the predictions of all models.

    Parameters
    ----------
    classes
        The classes to choose from in questions for labels, shown and read as text.
    num_groups
        Number of buckets of a page; default: one for every item of the largest page, but at most 6,
        which fit side by side on a screen.
    workers
        Names of people by their number in Label Studio (``completed_by``); others are named by
        their email address, or by their number as text.
    predictions
        Whether models count as workers, under their ``model_version``.
    sentence
        The instruction above the task; default: a sentence for each kind of question.
    control, item
        To read class labels from a project of your own: the name of its ``Choices`` in the
        labelling configuration, and the field of the tasks' data that identifies the item.

    Examples
    --------
    >>> import pandas as pd
    >>> pairs = pd.DataFrame({"left": ["ant"], "right": ["bee"]})
    >>> LabelStudio().tasks(pairs, {"ant": "six legs", "bee": "six legs, wings"})
    [{'data': {'left': 'ant', 'right': 'bee', 'text_1': 'six legs', 'text_2': 'six legs, wings'}}]

    The export of a project whose tasks have ``id`` and ``text``, and whose choices are named
    ``mood``:

    >>> said = {"from_name": "mood", "value": {"choices": ["glad"]}}
    >>> annotations = [{"completed_by": 1, "result": [said]}]
    >>> export = [{"data": {"id": 7, "text": "Well!"}, "annotations": annotations}]
    >>> LabelStudio(control="mood", item="id").answers(export).labels
       item worker label
    0     7      1  glad
    """

    classes: Collection[Hashable] = ()
    num_groups: int | None = None
    workers: Mapping[int, Hashable] = field(default_factory=dict)
    predictions: bool = True
    sentence: str | None = None
    control: str = _CHOICE
    item: str | None = None

    def tasks(self, questions: Questions, items: Items = None) -> list[dict[str, Any]]:
        """Tasks to import.

        Raises
        ------
        ValueError
            If an item is not among ``items``.
        """
        shown = ShownItems.of(items)
        return [{"data": _task(question, shown)} for question in read_questions(questions)]

    def configuration(self, questions: Questions, items: Items = None) -> str:
        """The labelling configuration of a project for these questions.

        Raises
        ------
        ValueError
            If questions are for labels and there are no ``classes``.
        """
        shown, asked = ShownItems.of(items), read_questions(questions)
        match asked[0]:
            case PairQuestion():
                body = _choices(_panels(2, shown), [SAME, DIFFERENT, CANNOT_TELL])
            case LabelQuestion():
                names = class_names(self.classes, "LabelStudio")
                body = _choices(_panels(1, shown), [*names, CANNOT_TELL])
            case PageQuestion():
                largest = max(len(question.items) for question in asked)
                body = _buckets(self.num_groups or min(largest, 6))
        head = f"  <Header value={quoteattr(self.sentence or asked[0].sentence)}/>"
        return "\n".join(["<View>", head, *body, "</View>", ""])

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """Tasks and configuration."""
        return {
            "tasks.json": dump_json(self.tasks(questions, items)),
            "labelling.xml": self.configuration(questions, items),
        }

    def parse(self, text: str) -> Any:
        """The export in a file."""
        return parse_json(text)

    def answers(self, export: Sequence[Mapping[str, Any]]) -> CrowdAnswers:
        """Answers of people and models, from an export as JSON.

        Raises
        ------
        ValueError
            If a task is malformed; the message names the task, the annotation and the field.

        Warns
        -----
        UserWarning
            If the export has only the numbers of predictions, not their results.
        """
        tasks = records(export, "task")
        numbers = [task for task in tasks if _names_predictions_alone(task)]
        if self.predictions and numbers:
            warn(
                f"{numbers[0].place}: the export has only the numbers of predictions, so answers "
                "of models are ignored; export a snapshot with the predictions, or pass "
                "predictions=False"
            )
        return CrowdAnswers.of(given for task in tasks for given in self._answers(task))

    def _answers(self, task: Record) -> Iterator[GivenAnswer]:
        question = self._question(task)
        annotations = task.records("annotations", "annotation")
        # People may correct an annotation, or make another one: the last one counts.
        for annotation in sorted(annotations, key=lambda one: one.maybe("updated_at", str, "")):
            cancelled = annotation.maybe("was_cancelled", bool, False)
            answer = None if cancelled else self._answer(annotation, question)
            seconds = annotation.maybe("lead_time", (int, float))
            yield GivenAnswer(question, self._worker(annotation), answer, seconds)
        if not self.predictions or _names_predictions_alone(task):
            return
        for prediction in task.records("predictions", "prediction"):
            name = prediction.maybe("model_version", str, "model")
            yield GivenAnswer(question, name, self._answer(prediction, question))

    def _question(self, task: Record) -> Question:
        if "data" not in task.fields and {"annotator", "annotation_id"} & task.fields.keys():
            raise task.wrong(
                "it has an annotation and no field 'data', as in exports as JSON-MIN, which do not "
                "hold all that was said: export the project as JSON"
            )
        if self.item is not None:
            return LabelQuestion(task.record("data").get(self.item, (str, int)))
        about = task.get("data", Mapping)
        try:
            return question_about(about)
        except ValueError as error:
            message = (
                f"{error}; for labels in a project of your own, pass item= the field of its id"
            )
            raise task.wrong(message) from error

    def _answer(self, annotation: Record, question: Question) -> Any:
        """The answer in the results of an annotation or a prediction; None if there is none."""
        name = _GROUPS if isinstance(question, PageQuestion) else self.control
        results = annotation.records("result", "result")
        own = [result for result in results if result.get("from_name", str) == name]
        if not own:
            if results:
                found = [result.get("from_name", str) for result in results]
                raise annotation.wrong(
                    f"no result is from the control '{name}', but from {found}: pass control= the "
                    "one that holds the labels"
                )
            return None
        value = own[-1].record("value")
        if isinstance(question, PageQuestion):
            return _groups(value.record("ranker"), question)
        choices = value.get("choices", Sequence)
        if len(choices) != 1:
            raise value.wrong(f"field 'choices' has {len(choices)} choices, but must have one")
        return choices[0]

    def _worker(self, annotation: Record) -> Hashable:
        who = annotation.get("completed_by", (int, Mapping))
        number = who if isinstance(who, int) else Record(who, annotation.place).get("id", int)
        if number in self.workers:
            return self.workers[number]
        return str(number) if isinstance(who, int) else str(who.get("email") or number)


def _names_predictions_alone(task: Record) -> bool:
    """Whether the export has only numbers of predictions, as plain exports do."""
    return any(isinstance(one, int) for one in task.maybe("predictions", Sequence, ()))


def _task(question: Question, shown: ShownItems) -> dict[str, Any]:
    data = question.about()
    if question.worker is not None:
        data["worker"] = question.worker
    if isinstance(question, PageQuestion):
        return {**data, "list": [_list_entry(item, shown) for item in question.items]}
    return {**data, **shown.numbered(question.items)}


def _list_entry(item: Hashable, shown: ShownItems) -> dict[str, str]:
    """An item of a page, as an entry of Label Studio's List, whose ids are texts."""
    entry = {"id": str(item)}
    if shown.has_texts:
        entry["body"] = shown.text(item)
    if shown.has_images:
        # Label Studio removes data: addresses from HTML attributes, but not from styles.
        image = html.escape(shown.image(item))
        style = f"height: 5rem; background: url({image}) center/contain no-repeat"
        entry["html"] = f'<div style="{style}"></div>'
    return entry


def _panels(count: int, shown: ShownItems) -> list[str]:
    lines = ['  <View style="display: flex; gap: 2rem; align-items: flex-start">']
    for place in range(1, count + 1):
        lines.append('    <View style="flex: 1">')
        if shown.has_images:
            lines.append(f'      <Image name="image_{place}" value="$image_{place}"/>')
        if shown.has_texts:
            lines.append(f'      <Text name="text_{place}" value="$text_{place}"/>')
        lines.append("    </View>")
    return [*lines, "  </View>"]


def _choices(panels: list[str], values: Sequence[str]) -> list[str]:
    target = "image_1" if any("<Image" in line for line in panels) else "text_1"
    return [
        *panels,
        f'  <Choices name="{_CHOICE}" toName="{target}" choice="single" required="true" '
        'showInline="true">',
        *(f"    <Choice value={quoteattr(value)}/>" for value in values),
        "  </Choices>",
    ]


def _buckets(count: int) -> list[str]:
    return [
        # The last line of an item is its id, which may reveal the answer.
        "  <Style>.htx-ranker-item [class^=itemLine]:last-child { display: none }</Style>",
        '  <List name="items" value="$list" title="To sort"/>',
        f'  <Ranker name="{_GROUPS}" toName="items">',
        *(f'    <Bucket name="{n}" title="{n}"/>' for n in range(1, count + 1)),
        f'    <Bucket name={quoteattr(CANNOT_TELL)} title="Can\'t tell"/>',
        "  </Ranker>",
    ]


def _groups(buckets: Record, question: PageQuestion) -> dict[Hashable, Hashable]:
    """The group of every item that was put into a group."""
    items = {str(item): item for item in question.items}
    groups: dict[Hashable, Hashable] = {}
    for name in buckets.fields:
        for entry in buckets.get(name, Sequence):
            if str(entry) not in items:
                raise buckets.wrong(f"'{name}' has {entry!r}, which is not an item of the page")
            if name != _NOT_MOVED and not is_no_answer(name):
                groups[items[str(entry)]] = name
    return groups
