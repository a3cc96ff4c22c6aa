"""Stands in for ncu where there is no GPU: runs the watched program, hears from it over TCP, writes a table.

Started as ncu is: options, then the program. What it can be asked to do instead is told by the metric's name.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

at = sys.argv.index("--metrics")
log = Path(sys.argv[sys.argv.index("--log-file") + 1])
metrics, program = sys.argv[at + 1].split(","), sys.argv[at + 2 :]
if "nosuch__metric.sum" in metrics:
    log.write_text("==ERROR== Failed to find metric regex:^nosuch__metric$\n")
    sys.exit(1)
if "endless__metric.sum" in metrics:
    time.sleep(600)
server = socket.create_server(("127.0.0.1", 0))
Path(os.environ["TMPDIR"], "port").write_text(str(server.getsockname()[1]))
heard = []


def listen():
    connection, _ = server.accept()
    heard.append(connection.recv(100).decode())


threading.Thread(target=listen, daemon=True).start()
code = subprocess.run(program).returncode
lines = [f"==PROF== Connected to process 1 (exit code {code}, heard {heard})"]
if "silent__metric.sum" not in metrics:
    lines.append(",".join(f'"{name}"' for name in ("ID", "Kernel Name", *metrics)))
    lines.append(",".join(['""', '""'] + ['"%"'] * len(metrics)))
    lines.append(",".join(['"0"', '"_mine"'] + ['"12.5"'] * len(metrics)))
log.write_text("\n".join(lines) + "\n")
