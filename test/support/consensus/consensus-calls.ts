/** Requests to voters of the test cluster, and waits for their outcome. */
import type { ErrorCode, Outcome } from '../../../src/base/errors.ts';
import type { GroupChange } from '../../../src/consensus/state/state-machine.ts';
import { ConsensusTestCluster, idOf } from './consensus-cluster.ts';

export type PendingOutcome = { outcome?: Outcome<unknown> };

export function codeOf({ outcome }: PendingOutcome): ErrorCode | 'ok' | undefined {
  if (outcome === undefined) return undefined;
  return outcome.ok ? 'ok' : outcome.error.code;
}

export function threeVoters(): { world: ConsensusTestCluster; leader: string; others: readonly string[] } {
  const world = new ConsensusTestCluster();
  world.group('n1', 'n2', 'n3');
  const leader = world.untilLeader().self.name;
  return { world, leader, others: world.keys.filter((key) => key !== leader) };
}

export function change(world: ConsensusTestCluster, key: string, groupChange: GroupChange): PendingOutcome {
  const ended: PendingOutcome = {};
  world.voter(key).host.change(groupChange, 5_000, (outcome) => {
    ended.outcome = outcome;
  });
  return ended;
}

export function transfer(world: ConsensusTestCluster, key: string, to?: string): PendingOutcome {
  const ended: PendingOutcome = {};
  world.voter(key).host.transfer(to === undefined ? undefined : idOf(to), 5_000, (outcome) => {
    ended.outcome = outcome;
  });
  return ended;
}

export function barrier(world: ConsensusTestCluster, key: string, timeoutMs = 1_000): PendingOutcome {
  const ended: PendingOutcome = {};
  world.voter(key).host.readBarrier(timeoutMs, (outcome) => {
    ended.outcome = outcome;
  });
  return ended;
}

export function untilEnded(world: ConsensusTestCluster, ended: PendingOutcome): ErrorCode | 'ok' | undefined {
  world.until('the end of a request', () => ended.outcome !== undefined);
  return codeOf(ended);
}

export function appliedEverywhere(world: ConsensusTestCluster, items: readonly string[]): boolean {
  return world.keys.every(
    (key) => !world.voter(key).alive || world.voter(key).stateMachine.items.join() === items.join(),
  );
}
