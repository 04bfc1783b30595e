"""One byte per weight: how far a weight may move, and what does not move at all."""

import pytest

pytestmark = pytest.mark.serving


def test_no_weight_moves_by_more_than_half_a_step_of_its_row():
    import torch

    from lora_spec.training.packed_layers import pack_rows, unpack_rows

    matrix = torch.randn(7, 33, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 2, 7)[:, None]
    back = unpack_rows(pack_rows({"m": matrix}))["m"]
    step = matrix.abs().amax(dim=1, keepdim=True) / 127
    assert ((back - matrix).abs() <= 0.5 * step * (1 + 1e-5)).all()


def test_zero_rows_vectors_and_unpacked_tensors_pass_through():
    import torch

    from lora_spec.training.packed_layers import pack_rows, unpack_rows

    tensors = {"zero": torch.zeros(2, 3), "norm": torch.tensor([1.0, 2.0])}
    back = unpack_rows(pack_rows(tensors))
    assert torch.equal(back["zero"], tensors["zero"])
    assert torch.equal(back["norm"], tensors["norm"])
    assert unpack_rows(tensors).keys() == tensors.keys()
