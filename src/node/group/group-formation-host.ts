/** Drives group formation: sends its requests to nodes and its bootstrap to consensus. Decides nothing. */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/runtime/loop.ts';
import type { Address, Clock, Peer } from '../../base/ports.ts';
import { GroupFormation, type GroupFormationEffect, type GroupFormationInput } from './group-formation.ts';
import type { DescribeGroup } from './group-info-client.ts';

export type GroupFormationPorts = {
  readonly clock: Clock;
  readonly describeGroup: DescribeGroup;
  readonly managers: () => readonly Peer[];
  readonly bootstrap: () => void;
  readonly onWaiting: (why: string) => void;
  readonly onHalt: (error: unknown) => void;
};

const roundMs = 250;

export class GroupFormationHost {
  readonly #ports: GroupFormationPorts;
  readonly #loop: Loop<GroupFormationInput, GroupFormationEffect, 'round'>;

  constructor(self: NodeId, ports: GroupFormationPorts) {
    this.#ports = ports;
    const { clock, onHalt } = ports;
    const perform = (effect: GroupFormationEffect): void => this.#perform(effect);
    this.#loop = new Loop(new GroupFormation(self, roundMs), { clock, store: noStore, perform, onHalt });
  }

  start(seeds: readonly Address[], bootstrap: boolean): void {
    this.#loop.feed({ kind: 'start', seeds, bootstrap });
  }

  /** A manager without a group has requested group information from this node. */
  onRequest({ id, host, port }: Peer): void {
    this.#loop.feed({ kind: 'requestedBy', manager: { id, host, port } });
  }

  onGroupFound(): void {
    this.#loop.feed({ kind: 'groupFound' });
  }

  onJoined(): void {
    this.#loop.feed({ kind: 'joined' });
  }

  stop(): void {
    this.#loop.stop();
  }

  #perform(effect: GroupFormationEffect): void {
    switch (effect.kind) {
      case 'listManagers':
        return this.#loop.feed({ kind: 'managers', managers: this.#ports.managers() });
      case 'bootstrap':
        return this.#ports.bootstrap();
      case 'waiting':
        return this.#ports.onWaiting(effect.detail);
      case 'request':
        return this.#request(effect.round, effect.to);
      default:
        return unreachable(effect);
    }
  }

  #request(round: number, from: Address): void {
    this.#ports.describeGroup(from, (outcome) => {
      if (!outcome.ok) return this.#loop.feed({ kind: 'requestFailed', round, from });
      const { id, isCandidate: eligible, isMember: hasGroup, managers } = outcome.value;
      this.#loop.feed({ kind: 'replied', round, from, reply: { id, eligible, hasGroup, managers } });
    });
  }
}
