"""What is written next: given events, expect events."""

from backstay.logic.decide.policy import Policy
from backstay.logic.state.progress import fold_all
from backstay.vocab.events import (
    Interrupted,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    StopDeadlinePassed,
    ToolFinished,
    TurnCompleted,
)
from backstay.vocab.messages import Text
from backstay.vocab.rules import Rule
from tests.logic.story import POLICY, Story


def test_a_turn_with_one_tool_takes_four_commits() -> None:
    story = Story()
    assert story.ask() == ["input_received", "turn_started", "input_taken", "model_asked"]
    assert story.reply("pay") == ["model_replied", "call_inspected", "call_judged", "tool_started"]
    assert story.finish() == ["tool_finished", "model_asked"]
    assert story.reply(text="done") == ["model_replied", "turn_completed"]


def test_neighbouring_pure_calls_start_together_and_others_wait_their_turn() -> None:
    story = Story()
    story.ask()
    assert story.reply("look", "look", "pay", "look").count("tool_started") == 2
    assert story.finish() == ["tool_finished"]
    assert story.finish() == ["tool_finished", "tool_started"]  # pay, alone
    assert story.finish() == ["tool_finished", "tool_started"]
    assert story.finish() == ["tool_finished", "model_asked"]


def test_no_more_pure_calls_run_at_once_than_the_policy_allows() -> None:
    story = Story(Policy(tools=POLICY.tools, parallel=3))
    story.ask()
    assert story.reply(*["look"] * 5).count("tool_started") == 3
    assert story.finish() == ["tool_finished", "tool_started"]


def test_approvals_are_asked_one_at_a_time_in_call_order() -> None:
    story = Story()
    story.ask()
    assert story.reply("run", "run").count("permission_asked") == 1
    first = story.progress.calls[0]
    answered = story.say(PermissionAnswered(call=first.id, allowed=False), cause=first.intent)
    assert answered == ["permission_answered", "tool_finished", "permission_asked"]
    second = story.progress.calls[0]
    assert story.say(PermissionAnswered(call=second.id, allowed=True), cause=second.intent)[-1] == "tool_started"


def test_a_late_or_repeated_result_changes_nothing() -> None:
    story = Story()
    story.ask()
    asked = story.progress.asking
    story.reply("pay")
    call = story.progress.calls[0]
    story.finish()
    before = story.progress.calls
    assert story.say(ToolFinished(call=call.id, outcome="ok"), cause=call.intent) == ["result_ignored"]
    assert story.say(ModelReplied(parts=(Text(text="late"),)), cause=asked) == ["result_ignored"]
    assert story.progress.calls == before


def test_a_steer_is_taken_where_no_call_is_open_and_a_queued_input_after_the_turn() -> None:
    story = Story()
    story.ask()
    story.reply("pay")
    assert story.steer() == ["input_received"]
    assert story.ask("later") == ["input_received"]
    assert story.finish() == ["tool_finished", "input_taken", "model_asked"]
    assert story.reply(text="done")[:4] == ["model_replied", "turn_completed", "turn_started", "input_taken"]


def test_a_steer_at_the_last_moment_keeps_the_turn_going() -> None:
    story = Story()
    story.ask()
    assert story.steer() == ["input_received"]
    assert story.reply(text="done") == ["model_replied", "input_taken", "model_asked"]


def test_an_interrupt_closes_what_nobody_performs_and_waits_for_the_rest() -> None:
    story = Story()
    story.ask()
    story.reply("pay", "pay")
    assert story.say(Interrupted()) == ["interrupted", "tool_finished"]
    running = story.progress.calls[0]
    stopped = story.say(ToolFinished(call=running.id, outcome="interrupted"), cause=running.intent)
    assert stopped == ["tool_finished", "turn_completed"]


def test_what_does_not_stop_in_time_is_declared_stopped() -> None:
    story = Story()
    story.ask()
    story.reply("pay")
    story.say(Interrupted())
    assert story.say(StopDeadlinePassed(), cause="another") == []
    assert story.say(StopDeadlinePassed(), cause=story.progress.stopping) == [
        "stop_deadline_passed",
        "tool_finished",
        "turn_completed",
    ]


def test_an_interrupt_of_nothing_is_nothing() -> None:
    assert Story().say(Interrupted()) == []


def test_after_a_crash_an_open_question_is_asked_again() -> None:
    story = Story()
    story.ask()
    assert story.crash() == ["opened", "model_asked"]


def test_after_a_crash_only_calls_that_may_run_again_do() -> None:
    story = Story()
    story.ask()
    story.reply("look", "look")
    story.finish()
    assert story.crash() == ["opened", "call_proposed"]
    assert story.inspect_again() == ["call_inspected", "call_judged", "tool_started"]
    assert story.finish() == ["tool_finished", "model_asked"]
    for name, again in (("put", True), ("find", True), ("pay", False)):
        story.reply(name)
        crashed = story.crash()
        if again:
            assert crashed == ["opened", "call_proposed"]
            story.inspect_again()
            assert story.log[-1].event.again  # type: ignore[attr-defined]  # it is a ToolStarted
            story.finish()
        else:
            assert crashed == ["opened", "tool_finished", "model_asked"]
    assert story.outcomes()[-1] == ("unknown", "restart")


def test_a_lost_call_that_is_refused_now_is_unknown_not_denied() -> None:
    story = Story()
    story.ask()
    story.reply("put")
    story.policy = Policy(tools=POLICY.tools, rules=(Rule(decision="deny", tool="put"),))
    story.crash()
    story.inspect_again()
    assert story.outcomes() == [("unknown", "restart")]


def test_a_tool_that_is_gone_after_a_crash_leaves_its_call_unknown() -> None:
    story = Story()
    story.ask()
    story.reply("put", "look")
    story.policy = Policy(tools={})
    story.crash()
    story.inspect_again()
    assert sorted(story.outcomes()) == [("invalid", "unknown_tool"), ("unknown", "restart")]


def test_an_approval_that_was_open_is_asked_again() -> None:
    story = Story()
    story.ask()
    story.reply("run")
    assert story.crash() == ["opened", "call_proposed"]
    assert story.inspect_again() == ["call_inspected", "call_judged", "permission_asked"]


def test_an_abandoned_turn_is_closed_and_what_was_queued_runs() -> None:
    story = Story()
    story.ask()
    story.reply("pay")
    story.ask("later")
    assert story.crash("abandon") == ["opened", "turn_completed", "turn_started", "input_taken", "model_asked"]
    assert story.progress.turns == 1


def test_an_interrupt_before_a_crash_still_ends_the_turn() -> None:
    story = Story()
    story.ask()
    story.reply("pay")
    story.say(Interrupted())
    assert story.crash() == ["opened", "tool_finished", "turn_completed"]
    assert story.outcomes() == [("unknown", "restart")]


def test_a_failed_model_call_fails_the_turn_with_its_kind() -> None:
    story = Story()
    story.ask()
    story.say(ModelFailed(kind="auth", message="no key"), cause=story.progress.asking)
    ended = story.log[-1].event
    assert isinstance(ended, TurnCompleted)
    assert (ended.outcome, ended.code, ended.message) == ("failed", "auth", "no key")


def test_the_round_limit_lets_the_last_calls_finish_and_then_ends_the_turn() -> None:
    story = Story(Policy(tools=POLICY.tools, max_rounds=1))
    story.ask()
    story.reply("pay")
    assert story.finish() == ["tool_finished", "turn_completed"]
    assert story.log[-1].event.code == "turn_limit"  # type: ignore[attr-defined]  # it is a TurnCompleted


def test_a_child_is_started_instead_of_a_tool() -> None:
    story = Story()
    story.ask()
    assert story.reply("child")[-1] == "child_started"
    started = story.log[-1].event
    assert started.child == f"s.{started.call}"  # type: ignore[attr-defined]  # it is a ChildStarted


def test_every_prefix_of_a_log_has_an_answer() -> None:
    story = Story()
    story.ask()
    story.reply("look", "pay", "run")
    story.steer()
    story.finish()
    story.finish()
    call = story.progress.calls[0]
    story.say(PermissionAnswered(call=call.id, allowed=True, grant="session"), cause=call.intent)
    story.say(Interrupted())
    for cut in range(1, len(story.log) + 1):
        for on_crash in ("continue", "abandon"):
            again = Story()
            again.log = story.log[:cut]
            again.progress = fold_all(again.log)
            again.crash(on_crash)
            for _ in range(20):
                if again.progress.asking:
                    again.reply(text="end")
                elif again.progress.calls and again.progress.calls[0].phase == "inspecting":
                    again.inspect_again()
                elif again.progress.calls and again.progress.calls[0].phase == "asking":
                    open_call = again.progress.calls[0]
                    again.say(PermissionAnswered(call=open_call.id, allowed=False), cause=open_call.intent)
                elif again.progress.calls:
                    again.finish()
            assert again.progress.turn is None
            assert again.progress.queue == ()
