/**
 * Announces a leave to connected neighbours and by gossip, before the sockets close, so that a leave is not taken for a
 * death. Finishes when the neighbours have acknowledged or time is up. Never closes a socket.
 */
import type { NodeId } from '../../base/ids.ts';
import type { MembershipContext } from '../state/context.ts';
import type { CrashObservers } from '../probe/crash-observers.ts';
import type { Gossiper } from '../probe/gossiper.ts';

const gossipRounds = 2;

export class GracefulLeave {
  readonly #context: MembershipContext;
  readonly #observers: CrashObservers;
  readonly #gossiper: Gossiper;
  readonly #waiting = new Set<NodeId>();
  #ended = false;

  constructor(context: MembershipContext, observers: CrashObservers, gossiper: Gossiper) {
    this.#context = context;
    this.#observers = observers;
    this.#gossiper = gossiper;
  }

  /** `manager` receives the heartbeats of this node, if it has no datagrams. */
  begin(reason: string, manager?: NodeId): void {
    const { self, gossip, options, outbox, table } = this.#context;
    if (self.leaving) return;
    self.leaving = true;
    if (self.hasDatagrams) gossip.add(self.claim('left'));
    for (let round = 0; round < gossipRounds; round++) this.#gossiper.tick();
    for (const id of new Set([...this.#observers.neighbours(), ...(manager === undefined ? [] : [manager])])) {
      const member = table.get(id);
      if (member === undefined) continue;
      this.#waiting.add(id);
      const message = { kind: 'leave', incarnation: self.incarnation, reason } as const;
      const purpose = { kind: 'departure', id } as const;
      outbox.push({ kind: 'request', to: member.entry, message, timeoutMs: options.leaveTimeoutMs, purpose });
    }
    if (this.#waiting.size === 0) this.#end();
    else outbox.schedule(options.leaveTimeoutMs, { kind: 'leaving' });
  }

  /** The request to this member has ended, with a reply or without. */
  acknowledged(id: NodeId): void {
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#end();
  }

  onTimeout(): void {
    this.#end();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#context.outbox.push({ kind: 'left' });
  }
}
