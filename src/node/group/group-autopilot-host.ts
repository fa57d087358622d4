/** Drives the autopilot: feeds it snapshots, carries its changes to consensus. Decides nothing. */
import { unreachable } from '../../base/assert.ts';
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/runtime/loop.ts';
import type { Clock } from '../../base/ports.ts';
import type { GroupChange } from '../../consensus/state/state-machine.ts';
import {
  GroupAutopilot,
  type AutopilotEffect,
  type AutopilotInput,
  type GroupSnapshot,
  type AutopilotOptions,
  type KnownManager,
} from './group-autopilot.ts';
import type { DescribeGroup } from './group-info-client.ts';

export type AutopilotPorts = {
  readonly clock: Clock;
  readonly ask: DescribeGroup;
  readonly look: () => GroupSnapshot;
  readonly change: (change: GroupChange, why: string, done: Done<void>) => void;
  readonly foreign: (id: NodeId, name: string) => void;
  readonly halted: (error: unknown) => void;
};

export class GroupAutopilotHost {
  readonly #ports: AutopilotPorts;
  readonly #loop: Loop<AutopilotInput, AutopilotEffect, 'keep'>;

  constructor(ports: AutopilotPorts, options: AutopilotOptions) {
    this.#ports = ports;
    const { clock, halted } = ports;
    const perform = (effect: AutopilotEffect): void => this.#perform(effect);
    this.#loop = new Loop(new GroupAutopilot(options), { clock, store: noStore, perform, onHalt: halted });
    this.#loop.feed({ kind: 'begin' });
  }

  stop(): void {
    this.#loop.stop();
  }

  #perform(effect: AutopilotEffect): void {
    switch (effect.kind) {
      case 'see':
        return this.#loop.feed({ kind: 'look', look: this.#ports.look() });
      case 'check':
        return this.#check(effect.manager);
      case 'change':
        return this.#change(effect.change, effect.why);
      case 'foreign':
        return this.#ports.foreign(effect.id, effect.name);
      default:
        return unreachable(effect);
    }
  }

  #check(manager: KnownManager): void {
    const { id } = manager;
    this.#ports.ask(manager, (outcome) => {
      if (!outcome.ok) return this.#loop.feed({ kind: 'unchecked', id });
      const isFree = outcome.value.isCandidate && !outcome.value.isMember;
      this.#loop.feed({ kind: 'checked', id, isFree });
    });
  }

  #change(change: GroupChange, why: string): void {
    const id = change.kind === 'add' ? change.member.id : change.id;
    this.#ports.change(change, why, ({ ok }) => this.#loop.feed({ kind: 'changed', id, ok }));
  }
}
