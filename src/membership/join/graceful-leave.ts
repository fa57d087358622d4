/**
 * Announces a leave to connected neighbours and by gossip, and finishes when they acknowledged or time is up. A leave
 * is not a death, so others are told before the sockets close. Never closes a socket.
 */
import type { NodeId } from '../../base/ids.ts';
import type { MembershipContext } from '../state/context.ts';
import type { CrashObservers } from '../probe/crash-observers.ts';
import type { Gossiper } from '../probe/gossiper.ts';

const gossipRounds = 2;

export class GracefulLeave {
  readonly #group: MembershipContext;
  readonly #observers: CrashObservers;
  readonly #spreader: Gossiper;
  readonly #waiting = new Set<NodeId>();
  #over = false;

  constructor(group: MembershipContext, observers: CrashObservers, spreader: Gossiper) {
    this.#group = group;
    this.#observers = observers;
    this.#spreader = spreader;
  }

  /** `manager` is the one who hears our heartbeats, if we need one. */
  begin(reason: string, manager?: NodeId): void {
    const { self, gossip, options, outbox, table } = this.#group;
    if (self.leaving) return;
    self.leaving = true;
    if (self.hasDatagrams) gossip.add(self.claim('left'));
    for (let round = 0; round < gossipRounds; round++) this.#spreader.tick();
    for (const id of new Set([...this.#observers.neighbours(), ...(manager === undefined ? [] : [manager])])) {
      const member = table.get(id);
      if (member === undefined) continue;
      this.#waiting.add(id);
      const message = { kind: 'leave', incarnation: self.incarnation, reason } as const;
      const purpose = { kind: 'departure', id } as const;
      outbox.put({ kind: 'request', to: member.entry, message, timeoutMs: options.leaveTimeoutMs, purpose });
    }
    if (this.#waiting.size === 0) this.#end();
    else outbox.after(options.leaveTimeoutMs, { kind: 'leaving' });
  }

  /** Answered or not: nobody waits for this one any more. */
  acknowledged(id: NodeId): void {
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#end();
  }

  onTimeout(): void {
    this.#end();
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#group.outbox.put({ kind: 'departed' });
  }
}
