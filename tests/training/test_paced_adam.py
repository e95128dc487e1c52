"""Adam, faster for parameters that have a long way to go."""

import copy

import pytest
import torch

from pyro_crowdclust.training.paced_adam import PacedAdam


def steps_to(target, start=0.0, rate=0.05, number=900, noise=0.0, seed=0):
    """The optimizer and its parameter after steps on ``|p - target|^2`` with noisy gradients."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.as_tensor(target, dtype=torch.float64)
    parameter = torch.nn.Parameter(torch.full_like(target, start))
    optimizer = PacedAdam([parameter], lr=rate)
    for _ in range(number):
        drawn = torch.randn(target.shape, generator=generator, dtype=torch.float64)
        parameter.grad = 2 * (parameter.detach() - target) + noise * drawn
        optimizer.step()
    return optimizer, parameter.detach()


@pytest.mark.parametrize(
    ("target", "number"), [(0.5, 200), (170.0, 900), (20_000.0, 2000), ([170.0, -250.0], 900)]
)
def test_parameters_arrive_wherever_the_optimum_is(target, number):
    optimizer, found = steps_to(target, number=number)
    assert found.tolist() == pytest.approx(target, abs=0.01)
    assert not optimizer.travels
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_a_parameter_that_goes_to_and_fro_keeps_its_rate():
    for seed in range(10):
        optimizer, _ = steps_to(torch.zeros(3), noise=1.0, number=300, seed=seed)
        assert optimizer.param_groups[0]["lr"] == 0.05


def test_every_parameter_has_its_own_rate():
    near, far = (torch.nn.Parameter(torch.zeros(())) for _ in range(2))
    optimizer = PacedAdam([near, far], lr=0.05)
    for _ in range(120):
        near.grad, far.grad = 2 * near.detach(), 2 * (far.detach() - 1000)
        optimizer.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.2]
    assert optimizer.travels


def test_the_first_steps_are_forgotten():
    """Where early gradients were ten thousand times larger, plain Adam hardly moves."""

    def after(optimizer_of):
        parameter = torch.nn.Parameter(torch.zeros(()))
        optimizer = optimizer_of([parameter])
        for step in range(800):
            parameter.grad = (parameter.detach() - 5) * (1e4 if step < 10 else 1.0)
            optimizer.step()
        return parameter.item()

    assert after(lambda parameters: PacedAdam(parameters, lr=0.01)) == pytest.approx(5, abs=0.1)
    assert after(lambda parameters: torch.optim.Adam(parameters, lr=0.01)) < 1


def test_a_rate_that_was_lowered_is_not_raised():
    optimizer, _ = steps_to(0.0, number=60)
    group = optimizer.param_groups[0]
    group["lr"] /= 5
    for _ in range(150):
        group["params"][0].grad = -torch.ones((), dtype=torch.float64)
        optimizer.step()
    assert group["lr"] == 0.05 / 5


def test_a_parameter_without_a_gradient_does_not_travel():
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = PacedAdam([parameter], lr=0.05)
    for _ in range(120):
        optimizer.step()
    assert not optimizer.travels
    parameter.grad = torch.ones(())
    optimizer.step()
    assert parameter.item() == pytest.approx(-0.05)


def test_a_copy_from_the_saved_state_goes_on_as_the_first():
    optimizer, _ = steps_to(1000.0, number=130)
    again = copy.deepcopy(optimizer)
    fresh = PacedAdam([again.param_groups[0]["params"][0]], lr=0.05)
    fresh.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one in (optimizer, fresh):
        parameter = one.param_groups[0]["params"][0]
        for _ in range(80):
            parameter.grad = 2 * (parameter.detach() - 1000)
            one.step()
    assert torch.equal(optimizer.param_groups[0]["params"][0], fresh.param_groups[0]["params"][0])
    assert optimizer.param_groups[0]["lr"] == fresh.param_groups[0]["lr"]
