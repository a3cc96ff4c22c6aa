"""Reading assembly: recorded text, and what the compiler here really writes."""

import shutil

import pytest

from kernelskill.profiling.assembly import functions, kernel_facts
from kernelskill.profiling.static import embedded_cpp, read_machine_code

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

RECORDED = """
	.type	helper, @function
helper:
.LFB1:
	call	tanhf@PLT
	ret
	.type	scale._omp_fn.0, @function
scale._omp_fn.0:
.L3:
	xorl	%eax, %eax
	call	expf@PLT
.L4:
	vmovups	(%rsi,%rax), %zmm1	# a comment with jne .L4
	vmovaps	%zmm2, -128(%rbp)
	vmovaps	64(%rsp), %zmm3
	vmovaps	(%rsp,%rax), %zmm4
	vgatherdps	(%rdx,%zmm4,4), %zmm5{%k1}
	vfmadd132ps	%zmm1, %zmm2, %zmm3
	vmovups	%zmm3, (%rdi,%rax)
	addq	$64, %rax
	cmpq	%rax, %rcx
	jne	.L4
	vaddss	%xmm0, %xmm1, %xmm0
	incl	%ebx
	jne	.L3
	vmovaps	%zmm9, 8(%rsp)
	call	helper
	ret
	.type	scale, @function
scale:
	leaq	scale._omp_fn.0(%rip), %rdi
	call	GOMP_parallel@PLT
	ret
	.type	other, @function
other:
.L9:
	movss	(%rdi), %xmm0
	call	expf@PLT
	movss	%xmm0, (%rsi)
	jne	.L9
	ret
"""


def test_functions_have_code_and_labels():
    found = functions(RECORDED)
    assert set(found) == {"helper", "scale._omp_fn.0", "scale", "other"}
    assert [item.mnemonic for item in found["scale"].code] == ["leaq", "call", "ret"]
    assert [len(loop) for loop in found["scale._omp_fn.0"].loops()] == [15, 10]
    assert [len(loop) for loop in found["scale._omp_fn.0"].innermost()] == [10]


def test_recorded_facts_count_loops_only():
    facts = kernel_facts(RECORDED, ["scale", "other", "absent"])
    assert set(facts) == {"scale", "other"}
    assert facts["scale"] == {
        "vector_bits_used": 512,
        "libm_calls": 0,  # expf is called once per row, not per element
        "spills": 2,  # an indexed array on the stack and what is saved after the loop are none
        "gathers": 1,
        "loop_instructions": 10,
    }
    assert facts["other"]["libm_calls"] == 1
    assert facts["other"]["vector_bits_used"] == 32


CPP = """
#include <cmath>
extern "C" void library(const float* x, float* y, long n) { for (long i = 0; i < n; ++i) y[i] = std::exp(x[i]); }
extern "C" void axpy(const float* __restrict x, float* __restrict y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2.0f * x[i] + y[i];
}
extern "C" void threads(const float* __restrict x, float* __restrict y, long n) {
#pragma omp parallel for
  for (long i = 0; i < n; ++i) y[i] = 2.0f * x[i];
}
"""


def python_file(cpp: str, flags: str = '"-O3", "-march=x86-64-v3", "-fopenmp"') -> str:
    return f'import os\nKERNELS = r"""{cpp}"""\ncommand = ["g++", {flags}, "-shared"]\n'


@needs_compiler
def test_real_code_is_compiled_and_read():
    facts, note = read_machine_code(python_file(CPP), ["library", "axpy", "threads"])
    assert note == ""
    assert facts["library"]["libm_calls"] >= 1
    assert facts["axpy"] | {"loop_instructions": 0} == {
        "vector_bits_used": 256,
        "libm_calls": 0,
        "spills": 0,
        "gathers": 0,
        "loop_instructions": 0,
    }
    assert facts["threads"]["vector_bits_used"] == 256, "the loop stands in a function of its own"


@needs_compiler
def test_the_candidates_own_flags_count():
    facts, _ = read_machine_code(python_file(CPP, '"-O1", "-march=x86-64-v3"'), ["axpy"])
    assert facts["axpy"]["vector_bits_used"] == 32


@needs_compiler
def test_code_that_does_not_compile_is_a_note():
    facts, note = read_machine_code(python_file("#include <cmath>\nvoid f() { nonsense }"), ["f"])
    assert facts == {}
    assert "nonsense" in note


def test_no_compiler_is_a_note(monkeypatch):
    monkeypatch.setattr("kernelskill.profiling.static.shutil.which", lambda name: None)
    facts, note = read_machine_code(python_file(CPP), ["axpy"])
    assert facts == {}
    assert "g++" in note


@pytest.mark.parametrize("source", ["def broken(:", "x = 1"])
def test_sources_without_kernels_are_a_note(source):
    facts, note = read_machine_code(source, ["k"])
    assert facts == {}
    assert note


def test_flags_that_would_load_or_write_files_are_not_taken_over():
    source = python_file(
        CPP, '"-O2", "-fplugin=/tmp/evil.so", "-o", "/etc/passwd", "-B/tmp", "-wrapper", "-march=native"'
    )
    texts, flags = embedded_cpp(source)
    assert len(texts) == 1
    assert flags == ("-O2", "-march=native")
