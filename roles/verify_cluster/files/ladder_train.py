"""Rung L8: a short real training job, each of whose results is compared with what it must be.

Data and first parameters are multiples of 1/64 and 1/256, drawn as integers, so that they are the same bits on every
processor; training is in float64, so that the order of additions cannot hide or feign a fault. Longer than other files:
its steps share one network and one set of samples.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ladder_rank import Place, Rank, WrongValueError

if TYPE_CHECKING:  # the controller's reader of these events; no such module is on a node
    from fullmesh.observed.ranks import TrainingStepResult

SEED = 20260401
SAMPLES = 16  # of every rank in every epoch: the set is divisible, so nothing need be repeated
BATCH = 8
EPOCHS = 2
FEATURES = 8
HIDDEN = 16
RATE = 0.1
# Float64 rounds at 1e-16 per operation and a few thousand follow one another; a lost sample moves the loss by 1e-4.
CLOSE = 1e-9
# bfloat16 rounds at 2^-9 = 0.2 % in each of the steps, on each rank's half of the batch alike; float16 is finer.
CLOSE_LOW = 0.02
SCALE = 1024.0  # the default 65536 overflows in float16 at once and skips the first steps
MOST_SHOWN = 5


@dataclass(frozen=True)
class Team:
    """The ranks that train together, and the place where they do.

    Attributes:
        members: global ranks.
        place: device, backend and the process group of the members.
        seed: of the data, of the first parameters and of the sampler.
    """

    members: Sequence[int]
    place: Place
    seed: int = SEED

    @property
    def samples(self) -> int:
        """Size of the data set."""
        return SAMPLES * len(self.members)


def paired(*rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """What stands at one place of each row; a row that is shorter is not a result, and never passes unseen.

    zip's ``strict`` came with Python 3.10; a torch of one's own may run on EL 9's 3.9.

    Raises:
        ValueError: the rows differ in length.
    """
    held = [list(row) for row in rows]
    sizes = [len(row) for row in held]
    if len(set(sizes)) > 1:
        raise ValueError(f"rows of {', '.join(map(str, sizes))} values, which should be as many")
    return list(zip(*held))


class Samples:
    """A data set that gives every sample together with its number."""

    def __init__(self, rank: Rank, team: Team) -> None:
        torch = rank.torch
        drawn = torch.Generator().manual_seed(team.seed)
        shape = (team.samples, FEATURES)
        whole = torch.randint(-64, 65, shape, generator=drawn).to(torch.float64) / 64
        self.inputs = whole.to(team.place.device)
        wanted = whole[:, :1] * whole[:, 1:2] - whole[:, 2:3]
        self.wanted = wanted.to(team.place.device)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[int, Any, Any]:
        return index, self.inputs[index], self.wanted[index]


def network(rank: Rank, team: Team, dtype: Any = None) -> Any:
    """The same two layers on every rank."""
    torch = rank.torch
    drawn = torch.Generator().manual_seed(team.seed + 1)
    dtype = dtype or torch.float64
    made = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN, dtype=dtype, device=team.place.device),
        torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, 1, dtype=dtype, device=team.place.device),
    )
    with torch.no_grad():
        for held in made.parameters():
            held.copy_(torch.randint(-128, 129, held.shape, generator=drawn) / 256)
    return made


def loss_of(rank: Rank, net: Any, inputs: Any, wanted: Any) -> Any:
    """Mean of the squared differences."""
    return rank.torch.nn.functional.mse_loss(net(inputs).to(wanted.dtype), wanted)


def gathered(rank: Rank, team: Team, values: Any) -> list[list[Any]]:
    """A short row of numbers of every member, at everybody's."""
    mine = values.to(team.place.device)
    found = [rank.torch.zeros_like(mine) for _ in team.members]
    rank.dist.all_gather(found, mine, group=team.place.group)
    return [row.tolist() for row in found]


def numbers(rank: Rank, values: Iterable[float]) -> Any:
    """A row of float64."""
    return rank.torch.tensor(list(values), dtype=rank.torch.float64)


def odd_ones(team: Team, rows: Sequence[Any]) -> list[int]:
    """The ranks that differ from most; with two, the second is held against the first."""
    usual = max(rows, key=rows.count)
    return [member for member, row in paired(team.members, rows) if row != usual]


def shown(ranks: Sequence[int]) -> str:
    """Ranks in words."""
    more = f" and {len(ranks) - MOST_SHOWN} more" if len(ranks) > MOST_SHOWN else ""
    return ", ".join(str(rank) for rank in ranks[:MOST_SHOWN]) + more


def same_start(rank: Rank, team: Team, data: Samples) -> None:
    """Every member begins with the same samples and the same parameters, to the bit."""
    weights = rank.torch.arange(1, team.samples + 1, dtype=rank.torch.float64)
    first = (data.inputs.cpu().sum(1) * weights).sum()
    second = (data.wanted.cpu()[:, 0] * weights).sum()
    third = sum(held.detach().sum().item() for held in network(rank, team).parameters())
    rows = gathered(rank, team, numbers(rank, (first.item(), second.item(), third)))
    odd = odd_ones(team, rows)
    if odd:
        at = team.members.index(odd[0])
        usual = max(rows, key=rows.count)
        what = f"rank {shown(odd)} starts from other data or parameters than the others (its seed)"
        raise WrongValueError(what, rows[at], usual, "start", odd)


def sampler_of(rank: Rank, team: Team, data: Samples) -> Any:
    """The sampler that jobs use."""
    return rank.torch.utils.data.DistributedSampler(
        data,
        num_replicas=len(team.members),
        rank=team.members.index(rank.rank),
        shuffle=True,
        seed=team.seed,
    )


def batches_of(rank: Rank, team: Team, data: Samples) -> list[list[Any]]:
    """What the loader hands out, epoch by epoch."""
    sampler = sampler_of(rank, team, data)
    loader = rank.torch.utils.data.DataLoader(data, batch_size=BATCH, sampler=sampler)
    epochs = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        epochs.append(list(loader))
    return epochs


def each_sample_once(rank: Rank, team: Team, epochs: Sequence[Sequence[Any]]) -> None:
    """No sample twice, none lost, in every epoch: the numbers of all members are put together."""
    torch = rank.torch
    for epoch, batches in enumerate(epochs):
        mine = [int(number) for batch in batches for number in batch[0]]
        sizes = [int(row[0]) for row in gathered(rank, team, torch.tensor([len(mine)]))]
        odd = [m for m, size in paired(team.members, sizes) if size != SAMPLES]
        if odd:
            seen = sizes[team.members.index(odd[0])]
            what = f"epoch {epoch}: number of samples that rank {shown(odd)} was given"
            raise WrongValueError(what, seen, SAMPLES, "sampler", odd)
        rows = gathered(rank, team, torch.tensor(mine))
        held = [number for row in rows for number in row]
        twice = sorted(number for number, times in Counter(held).items() if times > 1)
        lost = sorted(set(range(team.samples)) - set(held))
        if twice or lost:
            parts = partition(rank, team, epoch)
            odd = [m for m, row, part in paired(team.members, rows, parts) if row != part]
            what = f"epoch {epoch}, sampler of rank {shown(odd)}"
            text = f"{len(twice)} samples twice ({shown(twice)}), {len(lost)} lost ({shown(lost)})"
            raise WrongValueError(what, text, "each sample once", "sampler", odd)


def order_of(rank: Rank, team: Team, epoch: int) -> list[int]:
    """The order of an epoch, as torch documents it: randperm with seed + epoch."""
    drawn = rank.torch.Generator().manual_seed(team.seed + epoch)
    order: list[int] = rank.torch.randperm(team.samples, generator=drawn).tolist()
    return order


def partition(rank: Rank, team: Team, epoch: int) -> list[list[int]]:
    """Which samples each member must be given, without asking the sampler."""
    order, size = order_of(rank, team, epoch), len(team.members)
    return [order[at::size] for at in range(size)]


def whole_batches(rank: Rank, team: Team, data: Samples) -> list[Any]:
    """The batches that all members together are given, for one process alone."""
    size = BATCH * len(team.members)
    found = []
    for epoch in range(EPOCHS):
        order = order_of(rank, team, epoch)
        for at in range(0, team.samples, size):
            picked = rank.torch.tensor(order[at : at + size], device=team.place.device)
            found.append((picked, data.inputs[picked], data.wanted[picked]))
    return found


def train(rank: Rank, net: Any, batches: Iterable[Any], data: Samples) -> list[float]:
    """Train; the loss over all samples before the first step and after each."""
    descent = rank.torch.optim.SGD(net.parameters(), lr=RATE)

    def whole() -> float:
        with rank.torch.no_grad():
            return float(loss_of(rank, net, data.inputs, data.wanted))

    losses = [whole()]
    for _, inputs, wanted in batches:
        descent.zero_grad()
        loss_of(rank, net, inputs, wanted).backward()
        descent.step()
        losses.append(whole())
    return losses


def alone(rank: Rank, team: Team, data: Samples) -> tuple[list[float], list[float]]:
    """What one process gets from the same samples: losses and parameters."""
    net = network(rank, team)
    losses = train(rank, net, whole_batches(rank, team, data), data)
    return losses, flat(rank, net)


def flat(rank: Rank, net: Any) -> list[float]:
    """All parameters in a row."""
    found: list[float] = rank.torch.cat([p.detach().flatten() for p in net.parameters()]).tolist()
    return found


def machine(rank: Rank, team: Team) -> str:
    """What decides how numbers are rounded: processors of different kinds fuse operations differently."""
    if team.place.device == "cpu":
        return str(rank.torch.backends.cpu.get_cpu_capability())
    return str(rank.torch.cuda.get_device_name())


def alike(rank: Rank, team: Team) -> bool:
    """Whether all members round alike, so that equal means equal to the bit."""
    # sum of the bytes: short, the same length everywhere, and enough to tell the few kinds apart
    kind = sum(at * byte for at, byte in enumerate(machine(rank, team).encode(), 1))
    return len({row[0] for row in gathered(rank, team, rank.torch.tensor([kind]))}) == 1


def near(one: float, other: float, most: float) -> bool:
    """Equal, but for a share of *most*; a NaN is near nothing."""
    return abs(one - other) <= most * max(abs(one), abs(other), 1e-6)


def same_everywhere(rank: Rank, team: Team, what: str, values: Sequence[float]) -> None:
    """Losses and parameters are the same on all members, to the bit where the machines are alike."""
    rows = gathered(rank, team, numbers(rank, values))
    lost = [m for m, row in paired(team.members, rows) if not all(map(math.isfinite, row))]
    if lost:
        raise WrongValueError(
            f"{what} of rank {shown(lost)}", "no number", "a number", "ranks", lost
        )
    most = 0.0 if alike(rank, team) else CLOSE
    usual = max(rows, key=rows.count)
    for member, row in paired(team.members, rows):
        apart = next(((a, b) for a, b in paired(row, usual) if not near(a, b, most)), None)
        if apart:
            raise WrongValueError(
                f"{what} of rank {member}, against the others'", *apart, "ranks", [member]
            )


def as_alone(
    team: Team, what: str, seen: Sequence[float], wanted: Sequence[float], most: float = CLOSE
) -> None:
    """What came out is what one process alone gets."""
    for number, (one, other) in enumerate(paired(seen, wanted)):
        if not near(one, other, most):
            text = f"{what} after step {number} over ranks {shown(list(team.members))}"
            raise WrongValueError(text, one, f"{other} (one process alone)", "reference")


def parallel(rank: Rank, net: Any, team: Team) -> Any:
    """DDP over the members."""
    return rank.torch.nn.parallel.DistributedDataParallel(net, process_group=team.place.group)


def train_together(rank: Rank, team: Team) -> TrainingStepResult:
    """DDP with a DistributedSampler, from the first check to the last."""
    data = Samples(rank, team)
    same_start(rank, team, data)
    epochs = batches_of(rank, team, data)
    each_sample_once(rank, team, epochs)
    net = parallel(rank, network(rank, team), team)
    losses = train(rank, net, itertools.chain(*epochs), data)
    same_everywhere(rank, team, "loss", losses)
    same_everywhere(rank, team, "parameter", flat(rank, net))
    wanted, _ = alone(rank, team, data)
    as_alone(team, "loss", losses, wanted)
    return {
        "applicable": True,
        "device": team.place.device,
        "backend": team.place.backend,
        "samples": team.samples,
        "steps": len(losses) - 1,
        "loss": losses[-1],
        "reference": wanted[-1],
        "first_loss": losses[0],
    }


def step_ddp(rank: Rank, place: Place) -> TrainingStepResult:
    """All ranks train one model."""
    return train_together(rank, Team(range(rank.world), place))


def low_precision(rank: Rank, place: Place) -> Any:
    """What autocast is asked for: float16 wants a GPU, bfloat16 is everywhere."""
    return rank.torch.bfloat16 if place.device == "cpu" else rank.torch.float16


def step_amp(rank: Rank, place: Place) -> TrainingStepResult:
    """Mixed precision: autocast and the gradient scaler, held against the exact losses."""
    torch, team = rank.torch, Team(range(rank.world), place)
    kind, low = torch.device(place.device).type, low_precision(rank, place)
    data = Samples(rank, team)
    net = parallel(rank, network(rank, team, torch.float32), team)
    descent = torch.optim.SGD(net.parameters(), lr=RATE)
    scaler = torch.amp.GradScaler(kind, init_scale=SCALE)
    losses = []
    for _, inputs, wanted in itertools.chain(*batches_of(rank, team, data)):
        descent.zero_grad()
        with torch.autocast(kind, dtype=low):
            out = net(inputs.float())
        if out.dtype != low:
            raise WrongValueError("autocast's result", out.dtype, low, "amp")
        scaler.scale(torch.nn.functional.mse_loss(out.float(), wanted.float())).backward()
        scaler.step(descent)
        scaler.update()
        with torch.no_grad():
            losses.append(loss_of(rank, net, data.inputs.float(), data.wanted).item())
    if scaler.get_scale() < SCALE:
        raise WrongValueError("gradients overflowed; the scale", scaler.get_scale(), SCALE, "amp")
    same_everywhere(rank, team, f"loss in {low}", losses)
    wanted_losses, _ = alone(rank, team, data)
    as_alone(team, f"loss in {low}", losses, wanted_losses[1:], CLOSE_LOW)
    return {
        "applicable": True,
        "dtype": str(low),
        "loss": losses[-1],
        "reference": wanted_losses[-1],
    }


def subgroups(rank: Rank) -> list[list[int]]:
    """Every other rank, so that a group spans nodes; of two ranks both."""
    few = [list(range(rank.world))]
    evens_odds = [list(range(0, rank.world, 2)), list(range(1, rank.world, 2))]
    return few if rank.world < 3 else evens_odds  # noqa: PLR2004 (two ranks make no two groups)


def group_for(rank: Rank, members: list[int], place: Place) -> Any:
    """A subgroup on this backend; those of Gloo are there since rung L4."""
    if place.backend == "gloo" and place.device == "cpu":
        held = [group for ranks, group in rank.groups if ranks == members]
        if held:
            return held[0]
    return rank.dist.new_group(members, backend=place.backend)


def step_subgroups(rank: Rank, place: Place) -> TrainingStepResult:
    """Groups train at the same time, each on its own data; nothing of one gets into another."""
    said: TrainingStepResult = {"applicable": False}
    wanted = subgroups(rank)
    made = [(members, group_for(rank, members, place)) for members in wanted]
    for number, (members, group) in enumerate(made):
        if rank.rank in members:
            own = Place(place.device, place.backend, group)
            said = train_together(rank, Team(members, own, SEED + 100 * (number + 1)))
    return {**said, "groups": wanted}


def sharded(rank: Rank, net: Any, place: Place) -> Any:
    """FSDP's full shard of every layer and of the whole."""
    fsdp = rank.dist.fsdp
    mesh = rank.dist.device_mesh.DeviceMesh.from_group(
        place.group, rank.torch.device(place.device).type
    )
    for layer in net:
        if list(layer.parameters()):
            fsdp.fully_shard(layer, mesh=mesh)
    fsdp.fully_shard(net, mesh=mesh)
    return net


def is_sharded(rank: Rank, team: Team, net: Any) -> None:
    """The ranks hold the parameters between them, each its part."""
    held = [float(p.to_local().numel()) for p in net.parameters()]
    rows = gathered(rank, team, numbers(rank, held))
    whole = [float(p.numel()) for p in net.parameters()]
    total = [sum(column) for column in paired(*rows)]
    if total != whole:
        raise WrongValueError("parameters held by all ranks together", total, whole, "sharding")
    if rank.world > 1 and sum(held) >= sum(whole):
        raise WrongValueError(
            f"parameters held by rank {rank.rank}", sum(held), f"less than {sum(whole)}", "sharding"
        )


def step_fsdp(rank: Rank, place: Place) -> TrainingStepResult:
    """FSDP: the shards are shards, and what they learn is what one process learns."""
    team = Team(range(rank.world), place)
    data = Samples(rank, team)
    net = sharded(rank, network(rank, team), place)
    is_sharded(rank, team, net)
    losses = train(rank, net, itertools.chain(*batches_of(rank, team, data)), data)
    same_everywhere(rank, team, "loss under FSDP", losses)
    found = [p.full_tensor().detach().flatten() for p in net.parameters()]
    wanted, parameters = alone(rank, team, data)
    as_alone(team, "loss under FSDP", losses, wanted)
    as_alone(team, "parameter under FSDP", rank.torch.cat(found).tolist(), parameters)
    return {"applicable": True, "loss": losses[-1], "reference": wanted[-1]}


JOBS: dict[str, Callable[[Rank, Place], TrainingStepResult]] = {
    "ddp": step_ddp,
    "amp": step_amp,
    "subgroups": step_subgroups,
    "fsdp": step_fsdp,
}


def on_cpu(job: Callable[[Rank, Place], TrainingStepResult], rank: Rank) -> TrainingStepResult:
    """Train on the processors, over Gloo."""
    return job(rank, Place("cpu", "gloo", rank.dist.group.WORLD))


def on_gpu(job: Callable[[Rank, Place], TrainingStepResult], rank: Rank) -> TrainingStepResult:
    """Train on the GPUs, over NCCL, where rung L7 found them."""
    return job(rank, rank.gpu) if rank.gpu else {"applicable": False}


STEPS: dict[str, Callable[[Rank], TrainingStepResult]] = {
    **{name: partial(on_cpu, job) for name, job in JOBS.items()},
    **{f"gpu_{name}": partial(on_gpu, job) for name, job in JOBS.items()},
}
