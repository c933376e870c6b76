"""What befalls a world: each kind of fault is a function that does it once and undoes it later.

A seed takes some kinds and leaves others, so that each is also met without the rest (one fault
often hides another). Durations are drawn around the timeouts, since that is where the promises
turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.sim.actors import Actor

if TYPE_CHECKING:
    from tests.sim.world import World

Fault = Callable[["World"], None]


def some_time_s(world: World) -> float:
    """Draw a duration: mostly short, sometimes longer than the heartbeat timeout."""
    timeout_s = world.options.heartbeat_timeout_s
    return timeout_s * world.rng.choice((0.05, 0.2, 0.4, 0.7, 1.1, 1.6, 2.5)) * world.rng.random()


def a_broker(world: World) -> Actor:
    """Draw a broker, more often the leader than another; anyone where there is none."""
    leading = [b for b in world.brokers if b.is_up and hasattr(b, "broker") and b.broker.leading]
    if leading and world.rng.random() < 0.7:
        return leading[0]
    return world.rng.choice(world.brokers or world.actors)


def a_worker(world: World) -> Actor:
    return world.rng.choice(world.workers)


def anyone(world: World) -> Actor:
    return world.rng.choice(world.actors)


def crash(world: World, actor: Actor) -> None:
    if not actor.is_up:
        return
    world.note(f"kill -9 {actor.process.name}")
    actor.kill()
    world.later(some_time_s(world), world.restart, actor)


def pause(world: World, actor: Actor) -> None:
    if not actor.is_up or actor.process.is_frozen:
        return
    seconds = some_time_s(world) * 1.5
    world.note(f"stop {actor.process.name} for {seconds:.1f} s")
    if world.rng.random() < 0.5:
        actor.process.pause_at_clock(seconds)
    else:
        actor.process.pause(seconds)


def crash_broker(world: World) -> None:
    crash(world, a_broker(world))


def crash_worker(world: World) -> None:
    crash(world, a_worker(world))


def crash_anyone(world: World) -> None:
    crash(world, anyone(world))


def pause_broker(world: World) -> None:
    pause(world, a_broker(world))


def pause_worker(world: World) -> None:
    pause(world, a_worker(world))


def pause_anyone(world: World) -> None:
    pause(world, anyone(world))


def stop_broker(world: World) -> None:
    """SIGTERM, and a new process some time later."""
    broker = world.rng.choice(world.brokers) if world.brokers else None
    if (
        broker is not None
        and broker.is_up
        and not broker.process.is_frozen
        and hasattr(broker, "broker")
    ):
        world.note(f"SIGTERM {broker.process.name}")
        broker.stop()
        world.later(some_time_s(world) + 1, world.restart, broker)


def stop_worker(world: World) -> None:
    worker = world.rng.choice(world.workers)
    if worker.is_up and not worker.process.is_frozen and hasattr(worker, "worker"):
        world.note(f"SIGTERM {worker.process.name}")
        worker.drain()
        world.later(some_time_s(world) + 1, world.restart, worker)


def cut_connections(world: World) -> None:
    """Reset some connections, or let them go silent."""
    connections = list(world.network.connections)
    for connection in connections:
        if world.rng.random() < 0.5:
            continue
        if world.rng.random() < 0.5:
            world.network.cut(connection)
        else:
            connection.lose()


def block_path(world: World) -> None:
    """Let nothing get from one place to another, in one direction or both."""
    one, other = world.rng.choice(world.actors), world.rng.choice(world.brokers or world.actors)
    seconds = some_time_s(world)
    pairs = [(one.place, other.place), (other.place, one.place)]
    for pair in pairs if world.rng.random() < 0.5 else world.rng.sample(pairs, 1):
        world.note(f"block {pair[0]} → {pair[1]} for {seconds:.1f} s")
        world.network.block(*pair)
        world.undo(seconds, world.network.unblock, *pair)
    world.mark_cut(one.place, seconds)
    world.mark_cut(other.place, seconds)


def slow_network(world: World) -> None:
    world.network.slow = world.rng.choice((0.0, 0.05, 0.3))
    world.note(f"a share of {world.network.slow} of the frames is slow")
    world.mark_cut("*", world.faults_s)


def cut_store(world: World, place: str) -> None:
    how = world.rng.choice(("denied", "refused", "silent"))
    seconds = some_time_s(world)
    if place in world.store.cuts:
        return
    world.note(f"the store is {how} to {place} for {seconds:.1f} s")
    world.store.cuts[place] = how
    world.mark_cut(place, seconds)
    world.undo(seconds, world.store.cuts.pop, place, None)


def outage(world: World) -> None:
    cut_store(world, "*")


def cut_store_of_broker(world: World) -> None:
    cut_store(world, a_broker(world).place)


def cut_store_of_anyone(world: World) -> None:
    cut_store(world, anyone(world).place)


def change_weather(world: World) -> None:
    world.store.weather = world.draw_weather()


def step_clock(world: World) -> None:
    """Let the wall clock of one process jump, by seconds or by hours, either way."""
    actor = anyone(world)
    by_ms = int(world.rng.choice((1, -1)) * world.rng.choice((2_000, 60_000, 3_600_000)))
    if actor.is_up:
        world.note(f"the wall clock of {actor.process.name} jumps by {by_ms / 1000:g} s")
        actor.process.clock.step(by_ms)


KINDS: Final[tuple[Fault, ...]] = (
    crash_broker,
    crash_worker,
    crash_anyone,
    pause_broker,
    pause_worker,
    pause_anyone,
    stop_broker,
    stop_worker,
    cut_connections,
    cut_connections,
    block_path,
    block_path,
    slow_network,
    outage,
    cut_store_of_broker,
    cut_store_of_anyone,
    change_weather,
    step_clock,
)
