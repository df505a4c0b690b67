"""What the scripted model does: a script is a list of steps, one per model request (plain JSON).

A step holds any of: `say` (assistant text; the last step of a turn has only this), `exec` (a shell command),
`mcp` with `arguments` (a tool of the bridge), `gate` (a name: wait until released), `fault` (see
`simulators.model.app`). `{output}` in arguments stands for the last tool output's text.
"""

from typing import Any

Step = dict[str, Any]

_FIX = (
    "sed -i.bak 's/return a - b/return a + b/' calculator.py && rm calculator.py.bak && "
    "python3 -B -m unittest 2>&1 | tail -n 4"
)

SCRIPTS: dict[str, list[Step]] = {
    "fix-failing-test": [
        {"say": "I run the test first.", "exec": "python3 -B -m unittest 2>&1 | tail -n 4"},
        {"say": "add() subtracts. I fix it and run the test again.", "exec": _FIX},
        {"mcp": "publish", "arguments": {"message": "Make add() add"}},
        {"mcp": "reply", "arguments": {"body": "`add()` subtracted. It adds now, and the test passes."}},
        {"say": "Done."},
    ],
    "follow-up": [
        {"exec": "git log --oneline -n 2 && cat calculator.py"},
        {"mcp": "reply", "arguments": {"body": "I changed one line in `calculator.py`:\n\n```\n{output}\n```"}},
        {"say": "Done."},
    ],
    "reply-only": [{"mcp": "reply", "arguments": {"body": "Here is the answer."}}, {"say": "Done."}],
    "say-posted": [{"say": "I have posted the answer in the issue."}],
    "ask": [{"mcp": "ask_user", "arguments": {"question": "Which branch do you mean?"}}, {"say": "Waiting."}],
}
DEFAULT = "reply-only"
BY_TEXT = (
    ("fix the failing test", "fix-failing-test"),
    ("what did you change", "follow-up"),
)
"""The demo's people write plain sentences: a text that has the left part plays the right script."""
