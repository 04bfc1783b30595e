import pytest

pytestmark = pytest.mark.serving


def _schedule(**changes):
    from lora_spec.training.resumable import Schedule

    told = {"num_epochs": 3, "learning_rate": 0.05, "warmup_steps": 2, "weight_decay": 0.1, "seed": 1}
    return Schedule(**{**told, "save_every_steps": 4, **changes})


class _KilledError(Exception):
    pass


def _fit(state, *, killed_at=None, schedule=None):
    """Fit a line to seven batches and return (weights, curve, batches seen)."""
    import torch

    from lora_spec.training.resumable import train_resumably

    torch.manual_seed(0)
    inputs = torch.randn(7, 5, 3)
    labels = inputs @ torch.tensor([1.0, -2.0, 0.5])
    model, seen = torch.nn.Linear(3, 1), []

    def loss_of(number):
        seen.append(number)
        if len(seen) == killed_at:
            raise _KilledError
        return ((model(inputs[number]).squeeze(-1) - labels[number]) ** 2).mean(), 0, 5

    curve = train_resumably(
        model,
        7,
        loss_of,
        schedule=schedule or _schedule(),
        state_path=state / "state.safetensors",
        on_save=lambda step, curve: curve[-1].update(noted=step),
    )
    return [parameter.detach().clone() for parameter in model.parameters()], curve, seen


def _without_times(curve):
    return [{key: value for key, value in row.items() if key != "positions_per_s"} for row in curve]


@pytest.mark.parametrize("killed_at", [1, 5, 10, 21])
def test_a_killed_run_ends_with_the_weights_and_the_curve_of_an_undisturbed_one(tmp_path, killed_at):
    import torch

    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    weights, curve, seen = _fit(tmp_path / "whole")
    with pytest.raises(_KilledError):
        _fit(tmp_path / "killed", killed_at=killed_at)
    again, curve_again, seen_again = _fit(tmp_path / "killed")
    assert all(torch.equal(one, other) for one, other in zip(weights, again, strict=True))
    assert _without_times(curve_again) == _without_times(curve)
    assert seen_again == seen[(killed_at - 1) // 4 * 4 :]


def test_every_epoch_sees_every_batch_once_in_another_order(tmp_path):
    _, _, seen = _fit(tmp_path)
    epochs = [seen[0:7], seen[7:14], seen[14:21]]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_curve_has_a_row_per_checkpoint_and_one_for_the_end(tmp_path):
    _, curve, _ = _fit(tmp_path)
    assert [row["step"] for row in curve] == [4, 8, 12, 16, 20, 21] == [row["noted"] for row in curve]
    assert sum(row["num_positions"] for row in curve) == 21 * 5


def test_a_line_is_found(tmp_path):
    import torch

    weights, _, _ = _fit(tmp_path, schedule=_schedule(num_epochs=60, weight_decay=0.0))
    torch.testing.assert_close(weights[0], torch.tensor([[1.0, -2.0, 0.5]]), atol=1e-2, rtol=0)


def test_the_rate_rises_to_its_peak_and_falls_to_a_hundredth():
    from lora_spec.training.resumable import learning_rate_at

    rates = [learning_rate_at(step, 100, _schedule(warmup_steps=10)) for step in range(101)]
    assert rates[9] == rates[10] == max(rates) == pytest.approx(0.05)
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.0005)
