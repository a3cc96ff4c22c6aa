"""A llama.cpp server with one model: prints its address, and serves as long as its standard input is open.

local_server.py FILE.gguf CONTEXT_TOKENS THREADS
"""

import sys

import xllamacpp

if __name__ == "__main__":
    parameters = xllamacpp.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.n_ctx = int(sys.argv[2])
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = int(sys.argv[3])
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()
