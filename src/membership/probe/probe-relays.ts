/** Helper side of indirect probes: pings a target for another member and replies indirectAck or nack in any case. */
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import type { MembershipContext, MembershipMessageOf } from '../state/context.ts';
import { type Member, acceptsProbes } from '../state/member-table.ts';

type Relay = { readonly origin: NodeId; readonly originSeq: number; readonly target: NodeId };

const underWayMax = 1_000;

export class ProbeRelays {
  readonly #group: MembershipContext;
  readonly #ping: (target: Member) => number;
  readonly #relays = new Map<number, Relay>();

  /** `ping` sends a ping and returns its number. */
  constructor(group: MembershipContext, ping: (target: Member) => number) {
    this.#group = group;
    this.#ping = ping;
  }

  onRequest(from: Identity, message: MembershipMessageOf<'pingRequest'>): void {
    const { table, outbox } = this.#group;
    const target = table.get(message.target);
    if (target === undefined || !acceptsProbes(target) || this.#relays.size >= underWayMax) {
      return this.#nack(from.id, message.seq, false);
    }
    const seq = this.#ping(target);
    this.#relays.set(seq, { origin: from.id, originSeq: message.seq, target: target.id });
    outbox.after(message.timeoutMs / 4, { kind: 'relay', seq });
    outbox.after(message.timeoutMs, { kind: 'relayEnd', seq });
  }

  /** Some time without an answer: try the other way as well. */
  timeout(seq: number): void {
    const { table, outbox, options } = this.#group;
    const relay = this.#relays.get(seq);
    const target = relay && table.get(relay.target);
    if (target === undefined) return;
    const { probeTimeoutMs: timeoutMs } = options;
    const purpose = { kind: 'relay', seq } as const;
    outbox.put({ kind: 'request', to: target.entry, message: { kind: 'streamPing' }, timeoutMs, purpose });
  }

  /** An ack; false when it answers no ping of ours on behalf of somebody. */
  acked(from: NodeId, seq: number): boolean {
    if (this.#relays.get(seq)?.target !== from) return false;
    this.answered(seq);
    return true;
  }

  answered(seq: number): void {
    const { table, outbox, self } = this.#group;
    const relay = this.#relays.get(seq);
    this.#relays.delete(seq);
    const origin = relay && table.get(relay.origin);
    if (relay === undefined || origin === undefined) return;
    const message = { kind: 'indirectAck', incarnation: self.incarnation, seq: relay.originSeq, claims: [] } as const;
    outbox.put({ kind: 'datagram', to: origin.entry, message });
  }

  onExpired(seq: number): void {
    const relay = this.#relays.get(seq);
    this.#relays.delete(seq);
    if (relay !== undefined) this.#nack(relay.origin, relay.originSeq, false);
  }

  /** The host of this member refused us a connection: no need to wait. */
  onPortClosed(id: NodeId): void {
    for (const [seq, relay] of [...this.#relays]) {
      if (relay.target !== id) continue;
      this.#relays.delete(seq);
      this.#nack(relay.origin, relay.originSeq, true);
    }
  }

  /** We slept: what we did not hear says nothing. */
  clear(): void {
    this.#relays.clear();
  }

  #nack(origin: NodeId, seq: number, refused: boolean): void {
    const { table, outbox, self } = this.#group;
    const member = table.get(origin);
    if (member === undefined) return;
    const message = { kind: 'nack', incarnation: self.incarnation, seq, claims: [], refused } as const;
    outbox.put({ kind: 'datagram', to: member.entry, message });
  }
}
