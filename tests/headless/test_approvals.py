"""One answer for each question, and no answer for a question that was not there when it was written."""

import anyio

from backstay.headless.approvals import ApprovalQueue
from backstay.ports import Answer, Question

YES, NO = Answer(allowed=True), Answer(allowed=False)


def question(call: str) -> Question:
    return Question(session="s1", call=call, tool="Bash", args={"command": "true"}, reason="")


async def test_b1_an_answer_that_lay_in_the_pipe_before_the_question_came_does_not_answer_it() -> None:
    desk, told = ApprovalQueue(), []
    desk.attach(lambda: 100)

    async def ask() -> None:
        told.append(await desk.ask(question("c2")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert "before the open question was asked" in desk.answer("", YES, offset=60)
        assert "before the open question about 'c2' was asked" in desk.answer("c2", YES, offset=60)
        assert desk.answer("", NO, offset=100) == ""
    assert told == [NO]


async def test_b1_a_call_that_is_asked_about_again_takes_a_new_answer() -> None:
    desk, told = ApprovalQueue(), []

    async def ask() -> None:
        told.append(await desk.ask(question("c1")))

    for given in (NO, YES):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert desk.answer("c1", given) == ""
    assert told == [NO, YES]
    assert desk.answer("c1", YES) == ""
    assert "was answered before: allowed" in desk.answer("c1", NO)
