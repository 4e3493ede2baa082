"""Runs an MCP server on this process's stdio, and appends all lines of its stdout to a file.

mcp_tee.py LOG COMMAND…
"""

import subprocess
import sys

with open(sys.argv[1], "a") as log:
    with subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            log.write(line)
            log.flush()
            sys.stdout.write(line)
            sys.stdout.flush()
