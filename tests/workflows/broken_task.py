"""AgentTasks with a fault, to see how they end."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.events import TaskResult, TaskStart
    from domain.outcomes import Next

from workflows.agent_task import AgentTask


@workflow.defn(name="AgentTask")
class BrokenTask(AgentTask):
    @workflow.init
    def __init__(self, start: TaskStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: TaskStart) -> TaskResult:
        return await super().run(start)

    async def _verifying_reply(self) -> Next:
        raise KeyError("a fault of ours")


@workflow.defn(name="AgentTask")
class StuckTask(AgentTask):
    """Makes no progress once it is signalled."""

    @workflow.init
    def __init__(self, start: TaskStart) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: TaskStart) -> TaskResult:
        return await super().run(start)

    @workflow.signal
    def stick(self) -> None:
        raise RuntimeError("a fault of ours")
