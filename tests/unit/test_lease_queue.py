"""Who holds the workspace and who is next."""

from hypothesis import given
from hypothesis import strategies as st

from domain.events import LeaseRelease, LeaseRequest, RepositoryCarried
from domain.lease_queue import LeaseQueue


def ask(task: str, k: int = 1, *, resume: bool = False) -> LeaseRequest:
    return LeaseRequest(lease_id=f"{task}/{k}", task_id=task, resume=resume, thread_name=f"session of {task}")


def release(task: str, k: int | None = 1, *, fenced: bool = True) -> LeaseRelease:
    return LeaseRelease(lease_id=f"{task}/{k}" if k else None, task_id=task, fenced=fenced)


def queue(*requests: LeaseRequest) -> LeaseQueue:
    leases = LeaseQueue(RepositoryCarried())
    for request in requests:
        leases.ask(request)
    return leases


def order(leases: LeaseQueue) -> list[str]:
    return [waiter.task_id for waiter in leases.waiting]


def test_first_come_first_served_and_who_ran_before_goes_ahead() -> None:
    leases = queue(ask("a"), ask("b"), ask("c", resume=True), ask("d", resume=True), ask("a"))
    assert order(leases) == ["c", "d", "a", "b"]


def test_the_holder_that_asks_again_is_told_again() -> None:
    leases = queue(ask("a"))
    leases.take()
    assert leases.ask(ask("a"))
    assert order(leases) == []


def test_a_newer_request_of_the_holder_ends_its_lease() -> None:
    leases = queue(ask("a", 1))
    leases.take()
    assert not leases.ask(ask("a", 2))
    assert leases.freed == "now"


def test_an_older_request_of_the_holder_is_ignored() -> None:
    leases = queue(ask("a", 2))
    leases.take()
    assert not leases.ask(ask("a", 1))
    assert (leases.freed, order(leases)) == (None, [])


def test_a_stale_release_is_ignored() -> None:
    leases = queue(ask("a", 2), ask("b"))
    leases.take()
    leases.release(release("a", 1))
    leases.release(release("c"))
    assert (leases.freed, order(leases)) == (None, ["b"])


def test_a_release_without_a_lease_ends_whatever_the_task_has() -> None:
    leases = queue(ask("a"), ask("b"))
    leases.take()
    leases.release(release("b", None))
    leases.release(release("a", None, fenced=False))
    assert (leases.freed, order(leases)) == ("after_grace", [])


def test_the_next_holder_learns_the_thread_of_its_session() -> None:
    leases = queue(ask("a"))
    leases.take()
    leases.release(release("a").model_copy(update={"thread_name": "s", "thread_id": "t"}))
    assert leases.carried("h").threads == {"s": "t"}


def test_an_adopted_holder_does_not_wait_too() -> None:
    leases = queue(ask("a"), ask("b"))
    leases.adopt(ask("a"))
    assert leases.holder == ask("a")
    assert order(leases) == ["b"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.sampled_from(["ask", "release", "take"]))))
def test_no_task_ever_waits_twice_or_waits_for_what_it_holds(steps: list[tuple[str, bool, str]]) -> None:
    leases = queue()
    for task, flag, what in steps:
        if what == "ask":
            leases.ask(ask(task, resume=flag))
        elif what == "release":
            leases.release(release(task, fenced=flag))
        elif leases.holder is None:
            leases.take()
        if leases.freed:
            leases.clear()
        waiting = order(leases)
        assert len(waiting) == len(set(waiting))
        assert leases.holder is None or leases.holder.task_id not in waiting
