"""An AgentTask with a fault in one state, to see how it ends."""

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
