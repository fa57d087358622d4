/** Drives the keeper of a group: shows it what there is, and carries its changes to consensus. Decides nothing. */
import { unreachable } from '../../base/assert.ts';
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/runtime/loop.ts';
import type { Clock } from '../../base/ports.ts';
import type { GroupChange } from '../../consensus/state/state-machine.ts';
import {
  GroupKeeper,
  type KeeperEffect,
  type KeeperInput,
  type KeeperLook,
  type KeeperOptions,
  type ManagerSeen,
} from './group-keeper.ts';
import type { GroupQuestion } from './group-questions.ts';

export type KeeperPorts = {
  readonly clock: Clock;
  readonly ask: GroupQuestion;
  readonly look: () => KeeperLook;
  readonly change: (change: GroupChange, why: string, done: Done<void>) => void;
  readonly foreign: (id: NodeId, name: string) => void;
  readonly halted: (error: unknown) => void;
};

export class KeeperHost {
  readonly #ports: KeeperPorts;
  readonly #loop: Loop<KeeperInput, KeeperEffect, 'keep'>;

  constructor(ports: KeeperPorts, options: KeeperOptions) {
    this.#ports = ports;
    const { clock, halted } = ports;
    const perform = (effect: KeeperEffect): void => this.#perform(effect);
    this.#loop = new Loop(new GroupKeeper(options), { clock, store: noStore, perform, onHalt: halted });
    this.#loop.feed({ kind: 'begin' });
  }

  stop(): void {
    this.#loop.stop();
  }

  #perform(effect: KeeperEffect): void {
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

  #check(manager: ManagerSeen): void {
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
