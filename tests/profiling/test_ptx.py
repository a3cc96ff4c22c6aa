"""Facts from PTX: recorded statements, and what Triton compiles here without a GPU."""

import pytest

from kernelskill.profiling.ptx import code_facts

RECORDED = """
//
.version 8.7
.target sm_90a
.visible .entry _rows(.param .u64 .ptr .global .align 1 _rows_param_0)
.maxntid 256
{
	.reg .b32 	%r<90>;
	// ld.global.v4.b32 in a comment
$L__BB0_1:
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	@!%p2 ld.global.L1::evict_last.L2::cache_hint.v2.b32 { %r5, %r6 }, [ %rd1 + 0 ], %rd9;
	ld.global.nc.f32 	%f1, [%rd2];
	cp.async.cg.shared.global [ %r7 + 0 ], [ %rd3 + 0 ], 0x10, 0x10;
	cp.async.commit_group ;
	cp.async.wait_group 0x0;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd4, {%r2, %r3}], [%r5];
	ex2.approx.ftz.f32 	%r8, %r9;
	div.full.f32 	%r10, %r11, %r12;
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1};
	wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {%f1}, %rd1, %rd2, 1, 1, 1;
	wgmma.commit_group.sync.aligned;
	bar.sync 	0;
	shfl.sync.bfly.b32 	%r13, %r14, 16, 31, -1;
	atom.global.gpu.acq_rel.add.f32 %f2, [%rd5], %f3;
	redux.sync.add.s32 %r1, %r2, 0xffffffff;
	ld.shared.b32 	%r15, [%r16];
	st.local.v4.b32 	[%rd6], {%r1, %r2, %r3, %r4};
	st.global.v4.b32 [ %rd7 + 0 ], { %r1, %r2, %r3, %r4 };
	@%p3 bra 	$L__BB0_1;
	ret;
}
"""


def test_recorded_statements():
    assert code_facts(RECORDED) == {
        "global_accesses": 4, "async_copies": 2, "matrix_instructions": 2, "atomics": 1, "barriers": 1,
        "local_accesses": 1, "special_functions": 2, "access_bits": 128,
        "instructions": 21, "loops": 1, "stored_bytes": 16,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "garbage {", ".entry nothing() { ret; }"])
def test_text_without_accesses_has_no_width(text):
    found = code_facts(text)
    assert "access_bits" not in found
    assert {value for name, value in found.items() if name != "instructions"} == {0}


def test_only_a_branch_to_what_stands_before_it_is_a_loop():
    ahead = "@%p1 bra $L__BB0_2;\nadd.s32 %r1, %r2, %r3;\n$L__BB0_2:\nret;\n"
    back = "$L__BB0_1:\nadd.s32 %r1, %r2, %r3;\n@%p1 bra.uni $L__BB0_1;\nret;\n"
    assert [code_facts(text)["loops"] for text in (ahead, back)] == [0, 1]
    assert code_facts(ahead)["instructions"] == 3


def test_what_triton_compiles(compiled_ptx):
    wide, narrow = compiled_ptx
    assert code_facts(wide)["access_bits"] == 128
    assert code_facts(wide)["special_functions"] > 0
    assert code_facts(narrow)["access_bits"] == 32
    assert code_facts(narrow)["atomics"] == 1


@pytest.fixture(scope="module")
def compiled_ptx():
    """A kernel over aligned vectors, and one that adds up single elements atomically; for compute capability 9.0."""
    triton = pytest.importorskip("triton")
    from ptx_kernels import add_up, exponentials
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    def ptx(function, aligned):
        signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        attrs = {(place,): [["tt.divisibility", 16]] for place in range(3)} if aligned else {}
        source = ASTSource(function, signature, {"BLOCK": 1024}, attrs)
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["ptx"]

    return ptx(exponentials, True), ptx(add_up, False)
