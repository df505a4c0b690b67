"""The MCP server of one session: `python -I <path of this file> <config.json>` (design section 9).

Started by its path, never with `-m`: the working directory is the agent's and may hold modules of any name.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from bridge import server

    sys.exit(server.run(Path(sys.argv[1]), os.environ.pop("GITEA_ACCESS_TOKEN", "")))
