"""What is known of operators by their names and shapes alone."""

import pytest

from cotenant_predictor.extraction import extractor


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("convolution_backward", "conv"),
        ("addmm", "matmul"),
        ("native_batch_norm_backward", "norm"),
        ("_fused_rms_norm", "norm"),
        ("embedding_dense_backward", "embedding"),
        ("max_pool2d_with_indices", "pool"),
        ("_log_softmax_backward_data", "reduction"),
        ("nll_loss_forward", "reduction"),
        ("mse_loss_backward", "elementwise"),
        ("hardtanh_backward", "elementwise"),
        ("bernoulli_", "elementwise"),
        ("_to_copy", "copy"),
        ("constant_pad_nd", "copy"),
        ("index_put_", "sparse"),
        ("_index_put_impl_", "sparse"),
        ("scatter_add_", "sparse"),
    ],
)
def test_operator_has_a_class(name: str, cls: str) -> None:
    assert extractor.class_of(name) == cls


@pytest.mark.parametrize("name", ["foo", "summary", "mmm", "my_convolution_thing"])
def test_operator_that_nobody_knows_has_none(name: str) -> None:
    assert extractor.class_of(name) is None


def test_matrix_product_counts_two_flops_per_multiply_add() -> None:
    assert extractor.matmul([(10,), (4, 3), (3, 10)]) == (2 * 4 * 3 * 10, {"b": 1, "m": 4, "n": 10, "k": 3})


def test_batched_product_counts_every_product() -> None:
    assert extractor.matmul([(6, 4, 3), (6, 3, 10)]) == (6 * 2 * 4 * 3 * 10, {"b": 6, "m": 4, "n": 10, "k": 3})


def test_product_with_a_vector_has_one_column() -> None:
    assert extractor.matmul([(4, 3), (3,)]) == (2 * 4 * 3, {"b": 1, "m": 4, "n": 1, "k": 3})


def test_convolution_counts_every_tap_of_every_output() -> None:
    flops, dims = extractor.convolution((8, 64, 56, 56), (256, 64, 1, 1), (8, 256, 56, 56), transposed=False, groups=1)
    assert flops == 2 * 8 * 256 * 56 * 56 * 64
    assert dims == {"b": 8, "c": 64, "k": 256, "h": 56, "w": 56, "r": 1, "s": 1, "groups": 1}


def test_depthwise_convolution_counts_one_channel_per_output() -> None:
    flops, _ = extractor.convolution((1, 32, 9, 9), (32, 1, 3, 3), (1, 32, 9, 9), transposed=False, groups=32)
    assert flops == 2 * 32 * 81 * 9


def test_transposed_convolution_counts_every_tap_of_every_input() -> None:
    flops, dims = extractor.convolution((2, 16, 4, 4), (16, 8, 4, 4), (2, 8, 8, 8), transposed=True, groups=1)
    assert flops == 2 * (2 * 16 * 16) * (8 * 16)
    assert (dims["c"], dims["k"]) == (8, 16)


def test_attention_is_two_products_forward_and_five_backward() -> None:
    dims = {"b": 2, "heads": 3, "q": 5, "k": 7, "d": 11}
    forward = extractor.attention_row(dims, dtype="bf16", products=2)
    backward = extractor.attention_row(dims, dtype="bf16", products=5)
    assert forward["flops"] == 2 * 2 * 2 * 3 * 5 * 7 * 11
    assert backward["flops"] == 2.5 * forward["flops"]


def test_recurrent_layer_meets_every_weight_with_every_token() -> None:
    shapes = [[(40, 6), (40, 10)], [(40, 10), (40, 10)]]
    spec = {"name": "aten::lstm", "layers": shapes, "tokens": 35, "steps": 7, "dtype": "fp32", "itemBytes": 4}
    rows = extractor.recurrent_rows(spec, backward=False)
    assert [row["flops"] for row in rows] == [2 * 35 * 40 * 16, 2 * 35 * 40 * 20]
    assert rows[0]["dims"] == {"b": 5, "t": 7, "i": 6, "h": 10}
    assert [row["flops"] for row in extractor.recurrent_rows(spec, backward=True)] == [2 * row["flops"] for row in rows]
