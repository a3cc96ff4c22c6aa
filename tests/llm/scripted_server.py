"""A real HTTP server that speaks OpenAI chat and Anthropic messages, and answers by a script.

A script is a function: request number and prompt in, `Turn` out. What was asked is kept, so that tests can count.
"""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Turn:
    """One scripted answer."""

    text: str = ""
    status: int = 200
    headers: dict = field(default_factory=dict)
    finish: str = "stop"
    reasoning: str = ""
    input_tokens: int = 100
    output_tokens: int = 50
    hang: bool = False
    error: str = ""


ANTHROPIC_FINISH = {"stop": "end_turn", "length": "max_tokens"}


class ScriptedServer:
    def __init__(self, script):
        self.script = script
        self.requests = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.most_at_once = 0
        self._at_once = 0
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def openai(self):
        """A model string that leads here."""
        return f"openai-compatible:{self.url}/v1#scripted"

    def take(self, request):
        with self.lock:
            self.requests.append(request)
            number = len(self.requests) - 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.script(number, request)
        finally:
            with self.lock:
                self._at_once -= 1


def prompt_of(body):
    """All that was said, as one text."""
    said = [body["system"]] if isinstance(body.get("system"), str) else []
    said += [part["text"] for part in body["system"]] if isinstance(body.get("system"), list) else []
    for message in body["messages"]:
        content = message["content"]
        said.append(
            content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        )
    return "\n".join(said)


class _Handler(BaseHTTPRequestHandler):
    owner = None
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        request = {"path": self.path, "headers": dict(self.headers), "body": body, "prompt": prompt_of(body)}
        turn = self.owner.take(request)
        if turn.hang:
            self.owner.released.wait(60)
            return
        if turn.status != 200:
            self._send(
                turn.status,
                {"error": {"message": turn.error or "scripted", "type": "scripted"}},
                turn.headers,
            )
        elif self.path.endswith("/chat/completions"):
            self._send(200, _openai(turn, body), turn.headers)
        else:
            self._send(200, _anthropic(turn, body), turn.headers)

    def _send(self, status, document, headers):
        data = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def _openai(turn, body):
    message = {"role": "assistant", "content": turn.text or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": turn.finish}],
        "usage": {
            "prompt_tokens": turn.input_tokens, "completion_tokens": turn.output_tokens,
            "total_tokens": turn.input_tokens + turn.output_tokens,
        },
    }  # fmt: skip


def _anthropic(turn, body):
    content = [{"type": "thinking", "thinking": turn.reasoning, "signature": "s"}] if turn.reasoning else []
    content += [{"type": "text", "text": turn.text}] if turn.text else []
    return {
        "id": "x", "type": "message", "role": "assistant", "model": body["model"], "content": content,
        "stop_reason": ANTHROPIC_FINISH[turn.finish], "stop_sequence": None,
        "usage": {"input_tokens": turn.input_tokens, "output_tokens": turn.output_tokens},
    }  # fmt: skip
