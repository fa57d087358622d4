/** Drives group formation: carries its questions to nodes and its bootstrap to consensus. Decides nothing. */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/runtime/loop.ts';
import type { Address, Clock, Peer } from '../../base/ports.ts';
import { GroupFormation, type GroupFormationEffect, type GroupFormationInput } from './group-formation.ts';
import type { DescribeGroup } from './group-info-client.ts';

export type GroupFormationPorts = {
  readonly clock: Clock;
  readonly ask: DescribeGroup;
  readonly managers: () => readonly Peer[];
  readonly form: () => void;
  readonly waiting: (why: string) => void;
  readonly halted: (error: unknown) => void;
};

const roundMs = 250;

export class GroupFormationHost {
  readonly #ports: GroupFormationPorts;
  readonly #loop: Loop<GroupFormationInput, GroupFormationEffect, 'round'>;

  constructor(self: NodeId, ports: GroupFormationPorts) {
    this.#ports = ports;
    const { clock, halted } = ports;
    const perform = (effect: GroupFormationEffect): void => this.#perform(effect);
    this.#loop = new Loop(new GroupFormation(self, roundMs), { clock, store: noStore, perform, onHalt: halted });
  }

  begin(seeds: readonly Address[], bootstrap: boolean): void {
    this.#loop.feed({ kind: 'begin', seeds, bootstrap });
  }

  askedBy({ id, host, port }: Peer): void {
    this.#loop.feed({ kind: 'askedBy', manager: { id, host, port } });
  }

  heardOfGroup(): void {
    this.#loop.feed({ kind: 'heardOfGroup' });
  }

  belongs(): void {
    this.#loop.feed({ kind: 'belongs' });
  }

  stop(): void {
    this.#loop.stop();
  }

  #perform(effect: GroupFormationEffect): void {
    switch (effect.kind) {
      case 'look':
        return this.#loop.feed({ kind: 'managers', managers: this.#ports.managers() });
      case 'form':
        return this.#ports.form();
      case 'waiting':
        return this.#ports.waiting(effect.detail);
      case 'ask':
        return this.#ask(effect.round, effect.to);
      default:
        return unreachable(effect);
    }
  }

  #ask(round: number, from: Address): void {
    this.#ports.ask(from, (outcome) => {
      if (!outcome.ok) return this.#loop.feed({ kind: 'unanswered', round, from });
      const { id, isCandidate: eligible, isMember: hasGroup, managers } = outcome.value;
      this.#loop.feed({ kind: 'answered', round, from, answer: { id, eligible, hasGroup, managers } });
    });
  }
}
