/**
 * Names a new consensus group: the first leader proposes a random id before any other command, so everything that the
 * group agrees on is in an epoch of its own. A group that has an id keeps it; the proposal is then without effect.
 */
import type { Cancel, Clock } from '../../base/ports.ts';
import type { GroupHandle } from '../../consensus/state/state-machine.ts';
import { registryCommandCodec } from '../../messages/registry-log.ts';
import type { RegistryReplica } from '../replica/registry-replica.ts';
import type { RegistryWriteResult } from '../registry-messages.ts';

export type GroupFounderParts = {
  readonly clock: Clock;
  readonly group: Pick<GroupHandle<RegistryWriteResult>, 'leadership' | 'propose'>;
  readonly replica: Pick<RegistryReplica, 'keyspace'>;
  readonly newGroupId: () => string;
};

const timeoutMs = 5_000;
const retryMs = 500;

export class GroupFounder {
  readonly #parts: GroupFounderParts;
  readonly #unwatch: Cancel;
  #cancelRetry: Cancel = () => {};
  #isStopped = false;

  constructor(parts: GroupFounderParts) {
    this.#parts = parts;
    this.#unwatch = parts.group.leadership.watch({ elected: () => this.#proposeGroupId() });
    if (parts.group.leadership.isLeading()) this.#proposeGroupId();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelRetry();
    this.#unwatch();
  }

  #proposeGroupId(): void {
    const { clock, group, replica, newGroupId } = this.#parts;
    this.#cancelRetry();
    if (this.#isStopped || replica.keyspace.groupId !== '') return;
    const command = registryCommandCodec.encode({ kind: 'registrySetGroupId', groupId: newGroupId() });
    group.propose(command, timeoutMs, (outcome) => {
      // Another leader proposes an id of its own.
      if (outcome.ok || !group.leadership.isLeading()) return;
      this.#cancelRetry = clock.schedule(retryMs, () => this.#proposeGroupId());
    });
  }
}
