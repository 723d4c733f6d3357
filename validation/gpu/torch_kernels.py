#!/usr/bin/env python3
"""Times single operations on one GPU with PyTorch, each alone and back to back.

    torch_kernels.py FOLDER

writes gemm.csv, cast.csv, attention.csv and layer.csv into FOLDER. Times are medians in
microseconds; operands are random numbers. Written for PyTorch 2.11 with CUDA.
"""

import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

DEVICE = "cuda"
BF16 = torch.bfloat16
FP8 = torch.float8_e4m3fn
FP8_MOST = 448.0
HEAD = 128  # numbers of a head


def median_us(run, seconds=0.08):
    """Returns the median time of a call. Calls, 5 to 60 times, for about this many seconds."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    begin = time.time()
    run()
    torch.cuda.synchronize()
    calls = int(min(max(seconds / max(time.time() - begin, 1e-5), 5), 60))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(events, events[1:]))
    return round(1e3 * times[calls // 2], 2)


class Table:
    """A CSV file that is whole after each row."""

    def __init__(self, path, header):
        self.file = open(path, "w", encoding="ascii")
        self.row(*header.split(","))

    def row(self, *cells):
        self.file.write(",".join(str(cell) for cell in cells) + "\n")
        self.file.flush()


def random(*sizes, grad=False):
    return torch.randn(*sizes, device=DEVICE, dtype=BF16, requires_grad=grad)


def time_gemms(folder):
    """Times (m x k) by (k x n): in bf16; in fp8 with one scale for each array, with fast and slow
    accumulation; and in fp8 with one scale for each row."""
    table = Table(f"{folder}/gemm.csv", "precision,m,n,k,time_us")
    shapes = [(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (10240, 8192),
              (57344, 8192), (8192, 28672), (2048, 2048), (5120, 2048), (1536, 2048), (2048, 768),
              (3072, 7168), (7168, 2048), (2112, 7168), (128256, 4096)]
    for m in (2048, 4096, 8192, 16384):
        for n, k in shapes:
            if 2 * m * n * k > 1.6e13:
                continue
            a, b = random(m, k), random(n, k).t()
            table.row("bf16", m, n, k, median_us(lambda: a @ b))
            a8, b8 = a.to(FP8), b.t().to(FP8).t()
            one = torch.ones((), device=DEVICE)
            rows, columns = torch.ones(m, 1, device=DEVICE), torch.ones(1, n, device=DEVICE)
            for name, scales, fast in (("fp8", (one, one), True),
                                       ("fp8-slow-accum", (one, one), False),
                                       ("fp8-rowwise", (rows, columns), True)):
                product = lambda: torch._scaled_mm(a8, b8, *scales, out_dtype=BF16,
                                                   use_fast_accum=fast)
                table.row(name, m, n, k, median_us(product))


def scaled(x, largest):
    """Returns x in fp8, scaled so that `largest` becomes fp8's largest number, and the scale."""
    scale = FP8_MOST / largest.float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-FP8_MOST, FP8_MOST).to(FP8), scale


def cast_by_tensor(x):
    return scaled(x, x.abs().amax())


def cast_by_row(x):
    return scaled(x, x.abs().amax(-1, keepdim=True))


def cast_by_tensor_both(x):
    y, scale = cast_by_tensor(x)
    return y, y.t().contiguous(), scale


def time_casts(folder):
    """Times casts of bf16 to fp8 by kernels of torch.compile. read_GBps counts the input alone."""
    table = Table(f"{folder}/cast.csv", "cast,m,k,time_us,read_GBps")
    for name, cast in (("tensorwise", cast_by_tensor), ("rowwise", cast_by_row),
                       ("tensorwise and transposed", cast_by_tensor_both)):
        compiled = torch.compile(cast)
        for m, k in ((4096, 4096), (8192, 8192), (8192, 28672), (16384, 4096)):
            x = random(m, k)
            us = median_us(lambda: compiled(x))
            table.row(name, m, k, us, round(2 * m * k / us / 1e3))


def time_attention(folder):
    """Times fused attention, mostly with 32 heads and 8 of keys and values: causal over whole
    sequences; and a rank's queries against more keys, as in context parallelism."""
    table = Table(f"{folder}/attention.csv",
                  "backend,batch,q,kv,heads,kv_heads,head_size,causal,forward_us,backward_us")
    cases = []
    for s in (512, 1024, 2048, 4096, 8192, 16384, 32768):
        cases.append((max(1, 16384 // s), s, s, 32, 8, True))
        if s <= 8192:
            cases.append((1, s, s, 32, 8, True))
    for q in (1024, 2048, 4096):
        cases += [(1, q, q, 32, 8, False), (1, q, 8 * q, 32, 8, False)]
    for s in (4096, 8192):
        cases += [(1, s, s, 8, 1, True), (1, s, s, 4, 1, True)]
    for batch, q, kv, heads, kv_heads, causal in cases:
        for name, backend in (("flash", SDPBackend.FLASH_ATTENTION),
                              ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            query = random(batch, heads, q, HEAD, grad=True)
            key, value = (random(batch, kv_heads, kv, HEAD, grad=True) for _ in range(2))
            attend = lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal,
                                                            enable_gqa=True)
            with sdpa_kernel(backend):
                with torch.no_grad():
                    forward = median_us(attend, 0.05)
                output = attend()
                gradient = torch.randn_like(output)
                backward = median_us(lambda: torch.autograd.grad(
                    output, (query, key, value), gradient, retain_graph=True), 0.05)
            table.row(name, batch, q, kv, heads, kv_heads, HEAD, causal, forward, backward)


class Layer(nn.Module):
    """A transformer layer with grouped queries, rotary positions and a gated MLP, or experts."""

    def __init__(self, hidden, ffn, heads, kv_heads, experts=0, top_k=0):
        super().__init__()
        self.sizes, self.experts, self.top_k = (heads, kv_heads, kv_heads), experts, top_k
        self.norms = nn.ModuleList(nn.RMSNorm(hidden) for _ in range(2))
        self.qkv = nn.Linear(hidden, sum(self.sizes) * HEAD, bias=False)
        self.out = nn.Linear(heads * HEAD, hidden, bias=False)
        if experts:
            self.router = nn.Linear(hidden, experts, bias=False)
            self.up = nn.Parameter(torch.randn(experts, hidden, 2 * ffn) * 0.02)
            self.down = nn.Parameter(torch.randn(experts, ffn, hidden) * 0.02)
        else:
            self.up = nn.Linear(hidden, 2 * ffn, bias=False)
            self.down = nn.Linear(ffn, hidden, bias=False)

    @staticmethod
    def rotated(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x, cos, sin):
        batch, tokens, hidden = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, tokens, -1, HEAD).transpose(1, 2)
        q, k, v = qkv.split(self.sizes, 1)
        core = F.scaled_dot_product_attention(self.rotated(q, cos, sin), self.rotated(k, cos, sin),
                                              v, is_causal=True, enable_gqa=True)
        x = x + self.out(core.transpose(1, 2).reshape(batch, tokens, -1))
        y = self.norms[1](x)
        if not self.experts:
            gate, up = self.up(y).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)
        y = y.view(-1, hidden)
        # Sorts the tokens' copies by expert, so that each expert's rows follow one another.
        weights, chosen = self.router(y).float().softmax(-1).topk(self.top_k, -1)
        order = chosen.flatten().argsort(stable=True)
        token = order // self.top_k
        ends = torch.bincount(chosen.flatten(), minlength=self.experts).cumsum(0).to(torch.int32)
        gate, up = torch._grouped_mm(y[token], self.up, offs=ends).chunk(2, -1)
        z = torch._grouped_mm((F.silu(gate) * up).contiguous(), self.down, offs=ends)
        z = z * weights.flatten()[order].unsqueeze(-1).to(y.dtype)
        return x + torch.zeros_like(y).index_add(0, token, z).view(batch, tokens, hidden)


def angles(tokens):
    """Returns the cosines and sines of rotary positions."""
    rates = 1 / 10000 ** (torch.arange(0, HEAD, 2, device=DEVICE) / HEAD)
    turns = torch.outer(torch.arange(tokens, device=DEVICE), rates)
    return turns.cos().to(BF16), turns.sin().to(BF16)


def time_layers(folder):
    """Times two layers and halves that: eager and compiled, with and without recompute. At 64
    tokens the CPU's launches take all of the time."""
    table = Table(f"{folder}/layer.csv",
                  "layer,mode,recompute,tokens,forward_us,both_us,peak_MiB")
    kinds = {"llama-8b": (4096, 14336, 32, 8), "llama-70b/8": (8192, 3584, 8, 1),
             "qwen3-30b-moe": (2048, 768, 32, 4, 128, 8)}
    for name, sizes in kinds.items():
        for tokens in (64, 1024, 4096, 8192):
            torch.manual_seed(0)
            layers = [Layer(*sizes).to(DEVICE).to(BF16) for _ in range(2)]
            cos, sin = angles(tokens)
            x = random(1, tokens, sizes[0], grad=True)
            for mode in ("eager", "compile") if tokens > 64 else ("eager",):
                parts = [torch.compile(one) if mode == "compile" else one for one in layers]
                for recompute in (False, True):
                    def run(backward=True, parts=parts, recompute=recompute):
                        y = x
                        for part in parts:
                            y = (checkpoint(part, y, cos, sin, use_reentrant=False) if recompute
                                 else part(y, cos, sin))
                        if backward:
                            y.backward(x.detach())
                    run()
                    torch.cuda.synchronize()
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                    run()
                    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
                    table.row(name, mode, recompute, tokens,
                              median_us(lambda: run(False), 0.15) / 2,
                              median_us(run, 0.25) / 2, round(peak, 1))
            torch._dynamo.reset()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}")
    for part in (time_gemms, time_casts, time_attention, time_layers):
        begin = time.time()
        part(folder)
        print(f"{part.__name__}: {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
