/** Drives the autopilot: feeds it snapshots, proposes its changes to consensus. Decides nothing. */
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
  readonly describeGroup: DescribeGroup;
  readonly snapshot: () => GroupSnapshot;
  readonly change: (change: GroupChange, why: string, done: Done<void>) => void;
  readonly onForeign: (id: NodeId, name: string) => void;
  readonly onHalt: (error: unknown) => void;
};

export class GroupAutopilotHost {
  readonly #ports: AutopilotPorts;
  readonly #loop: Loop<AutopilotInput, AutopilotEffect, 'poll'>;

  constructor(ports: AutopilotPorts, options: AutopilotOptions) {
    this.#ports = ports;
    const { clock, onHalt } = ports;
    const perform = (effect: AutopilotEffect): void => this.#perform(effect);
    this.#loop = new Loop(new GroupAutopilot(options), { clock, store: noStore, perform, onHalt });
    this.#loop.feed({ kind: 'start' });
  }

  stop(): void {
    this.#loop.stop();
  }

  #perform(effect: AutopilotEffect): void {
    switch (effect.kind) {
      case 'inspect':
        return this.#loop.feed({ kind: 'snapshot', snapshot: this.#ports.snapshot() });
      case 'check':
        return this.#check(effect.manager);
      case 'change':
        return this.#change(effect.change, effect.why);
      case 'foreign':
        return this.#ports.onForeign(effect.id, effect.name);
      default:
        return unreachable(effect);
    }
  }

  #check(manager: KnownManager): void {
    const { id } = manager;
    this.#ports.describeGroup(manager, (outcome) => {
      if (!outcome.ok) return this.#loop.feed({ kind: 'checkFailed', id });
      const isFree = outcome.value.isCandidate && !outcome.value.isMember;
      this.#loop.feed({ kind: 'checked', id, isFree });
    });
  }

  #change(change: GroupChange, why: string): void {
    const id = change.kind === 'add' ? change.member.id : change.id;
    this.#ports.change(change, why, ({ ok }) => this.#loop.feed({ kind: 'changed', id, ok }));
  }
}
