"""What runs inside a worker process: standard library and torch only.

`main.py` is started by path (`python -I main.py ...`), outside any installed package, and gives this folder a
package name of its own; siblings are therefore imported relatively (`from .protocol import Failure`).
Each command is a function `handle_<command>(session, message) -> dict` in the file that owns it.
"""
