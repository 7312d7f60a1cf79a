"""A skill that a person runs in a child session: given events, expect events."""

from backstay.logic.state.progress import fold_all
from backstay.vocab.events import ChildFinished, ChildStarted, Interrupted, SkillRun
from backstay.vocab.events.limits import BudgetSet, ChildSpent
from tests.logic.story import Story

STARTED = ChildStarted(call="n-skill-1", child="s.n-skill-1", prompt="Look.", skill=SkillRun(name="inspect"))
OVER = ChildFinished(call="n-skill-1", child="s.n-skill-1", outcome="completed", text="Dry.", cost=30, skill="inspect")


def test_no_turn_begins_before_the_skill_has_ended() -> None:
    story = Story()
    story.say(STARTED)
    intent = story.log[-1].id

    assert story.ask() == ["input_received"]
    assert story.say(OVER, cause=intent) == ["child_finished", "turn_started", "input_taken", "model_asked"]


def test_a_result_that_comes_twice_or_late_changes_nothing() -> None:
    story = Story()
    story.say(STARTED)
    intent = story.log[-1].id
    assert story.say(OVER, cause="another") == ["result_ignored"]
    assert story.say(OVER, cause=intent) == ["child_finished"]
    assert story.say(OVER, cause=intent) == ["result_ignored"]


def test_a_skill_whose_process_died_is_run_again_with_what_is_left_of_the_budget() -> None:
    story = Story()
    story.say(BudgetSet(limit=100))
    story.say(STARTED)
    story.crash("continue")
    story.say(ChildSpent(child=STARTED.child, cost=40))
    again = [record.event for record in story.log if isinstance(record.event, ChildStarted)]

    assert [event.call for event in again] == [STARTED.call] * 2
    assert again[-1].budget == {"limit": 100, "on_exceed": "fail"}
    assert story.progress.skill is not None
    assert story.progress.skill.lost
    assert story.progress.budget.spent == 40


def test_a_skill_is_given_up_with_its_turn() -> None:
    story = Story()
    story.say(STARTED)
    story.crash("abandon")

    assert story.progress.skill is None
    ended = [record.event for record in story.log if isinstance(record.event, ChildFinished)]
    assert [event.outcome for event in ended] == ["abandoned"]


def test_a_running_skill_can_be_interrupted() -> None:
    story = Story()
    assert story.say(Interrupted()) == []
    story.say(STARTED)
    assert story.say(Interrupted()) == ["interrupted"]


def test_every_prefix_of_its_log_has_an_answer() -> None:
    story = Story()
    story.say(STARTED)
    story.ask()
    story.say(OVER, cause=story.progress.skill.intent if story.progress.skill is not None else "")
    for cut in range(1, len(story.log) + 1):
        for on_crash in ("continue", "abandon"):
            again = Story()
            again.log = story.log[:cut]
            again.progress = fold_all(again.log)
            again.crash(on_crash)
