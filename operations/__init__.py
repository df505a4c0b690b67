"""What operators read, change and prove, the same over HTTP, at the command line and in a schedule."""

OPERATORS_ONLY = ("operators.json", "audit", "ingress-audit.jsonl", "ingress-audit.jsonl.1", "given")
"""Names in the state folder that nothing but ccweb may read: they tell of other repositories, or are secrets."""
