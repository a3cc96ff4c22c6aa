"""What is judged on a GPU: honest candidates, and those that cheat or break."""

HONEST = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x):
        {body}
"""
EAGER = HONEST.format(body="return torch.nn.functional.gelu(self.linear(x)) * 1.5")
WRONG = HONEST.format(body="return torch.nn.functional.gelu(self.linear(x)) * 1.6")
TRITON = """
import torch, triton
import triton.language as tl
@triton.jit
def act(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, 1.5 * v * 0.5 * (1.0 + tl.erf(v * 0.7071067811865476)), mask=i < n)
class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x):
        h = self.linear(x)
        y = torch.empty_like(h)
        act[(triton.cdiv(h.numel(), 1024),)](h, y, h.numel(), BLOCK=1024)
        return y
"""
SIDE_STREAM = HONEST.format(
    body="""
        out = torch.empty_like(x)
        if not hasattr(self, "aside"):
            self.aside = torch.cuda.Stream()
        with torch.cuda.stream(self.aside):
            torch.cuda._sleep(20_000_000)
            out.copy_(torch.nn.functional.gelu(self.linear(x)) * 1.5)
        return out
"""
)
FAKED_EVENTS = HONEST.format(
    body="""
        torch.cuda.Event.elapsed_time = lambda self, other: 1e-6
        return torch.nn.functional.gelu(self.linear(x)) * 1.5
"""
)
ILLEGAL = """
import torch, triton
import triton.language as tl
@triton.jit
def wild(x):
    tl.store(x + (1 << 44), 1.0)
class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x):
        y = torch.empty_like(x)
        wild[(1,)](y)
        return y
"""
ENDLESS = """
import torch, triton
import triton.language as tl
@triton.jit
def spin(x):
    while tl.load(x, volatile=True) > -1e30:
        pass
class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
    def forward(self, x):
        y = torch.zeros_like(x)
        spin[(1,)](y)
        return y
"""
HUNGRY = HONEST.format(body="""return torch.empty(1 << 42, device=x.device)""")
CACHED = HONEST.format(
    body="""
        if not hasattr(self, "kept"):
            self.kept = torch.nn.functional.gelu(self.linear(x)) * 1.5
        return self.kept
"""
)
IN_PLACE = HONEST.format(
    body="""
        y = torch.nn.functional.gelu(self.linear(x)) * 1.5
        x.mul_(2)
        return y
"""
)
