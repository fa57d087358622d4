/** Calls to the voters of a pretend group, and waits for how they end. */
import type { ErrorCode, Outcome } from '../src/base/errors.ts';
import type { GroupChange } from '../src/consensus/state/state-machine.ts';
import { ConsensusWorld, idOf } from './consensus-world.ts';

export type Ended = { outcome?: Outcome<unknown> };

export function codeOf({ outcome }: Ended): ErrorCode | 'ok' | undefined {
  if (outcome === undefined) return undefined;
  return outcome.ok ? 'ok' : outcome.error.code;
}

export function three(): { world: ConsensusWorld; leader: string; others: readonly string[] } {
  const world = new ConsensusWorld();
  world.group('n1', 'n2', 'n3');
  const leader = world.untilLeader().self.name;
  return { world, leader, others: world.keys.filter((key) => key !== leader) };
}

export function change(world: ConsensusWorld, key: string, what: GroupChange): Ended {
  const ended: Ended = {};
  world.voter(key).host.change(what, 5_000, (outcome) => {
    ended.outcome = outcome;
  });
  return ended;
}

export function transfer(world: ConsensusWorld, key: string, to?: string): Ended {
  const ended: Ended = {};
  world.voter(key).host.transfer(to === undefined ? undefined : idOf(to), 5_000, (outcome) => {
    ended.outcome = outcome;
  });
  return ended;
}

export function barrier(world: ConsensusWorld, key: string, timeoutMs = 1_000): Ended {
  const ended: Ended = {};
  world.voter(key).host.readBarrier(timeoutMs, (outcome) => {
    ended.outcome = outcome;
  });
  return ended;
}

export function untilEnded(world: ConsensusWorld, ended: Ended): ErrorCode | 'ok' | undefined {
  world.until('the end of a call', () => ended.outcome !== undefined);
  return codeOf(ended);
}

export function everywhere(world: ConsensusWorld, items: readonly string[]): boolean {
  return world.keys.every((key) => !world.voter(key).alive || world.voter(key).replica.items.join() === items.join());
}
