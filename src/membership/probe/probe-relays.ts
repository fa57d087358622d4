/**
 * Helper side of indirect probes: pings a target for another member and replies indirectAck or nack in any case, unless
 * this node was paused. Never suspects the target.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import type { MembershipContext, MembershipMessageOf } from '../state/context.ts';
import { type Member, acceptsProbes } from '../state/member-table.ts';

type Relay = { readonly origin: NodeId; readonly originSeq: number; readonly target: NodeId };

const relaysMax = 1_000;

export class ProbeRelays {
  readonly #context: MembershipContext;
  readonly #ping: (target: Member) => number;
  readonly #relays = new Map<number, Relay>();

  /** `ping` sends a ping and returns its number. */
  constructor(context: MembershipContext, ping: (target: Member) => number) {
    this.#context = context;
    this.#ping = ping;
  }

  onRequest(from: Identity, message: MembershipMessageOf<'pingRequest'>): void {
    const { table, outbox } = this.#context;
    const target = table.get(message.target);
    if (target === undefined || !acceptsProbes(target) || this.#relays.size >= relaysMax) {
      return this.#nack(from.id, message.seq, false);
    }
    const seq = this.#ping(target);
    this.#relays.set(seq, { origin: from.id, originSeq: message.seq, target: target.id });
    outbox.schedule(message.timeoutMs / 4, { kind: 'relay', seq });
    outbox.schedule(message.timeoutMs, { kind: 'relayEnd', seq });
  }

  /** No ack for a while: pings by TCP as well. */
  onDirectTimeout(seq: number): void {
    const { table, outbox, options } = this.#context;
    const relay = this.#relays.get(seq);
    const target = relay && table.get(relay.target);
    if (target === undefined) return;
    const { probeTimeoutMs: timeoutMs } = options;
    const purpose = { kind: 'relay', seq } as const;
    outbox.push({ kind: 'request', to: target.entry, message: { kind: 'streamPing' }, timeoutMs, purpose });
  }

  /** False for an ack of a ping that this node sent for itself. */
  onAck(from: NodeId, seq: number): boolean {
    if (this.#relays.get(seq)?.target !== from) return false;
    this.onStreamAck(seq);
    return true;
  }

  onStreamAck(seq: number): void {
    const { table, outbox, self } = this.#context;
    const relay = this.#relays.get(seq);
    this.#relays.delete(seq);
    const origin = relay && table.get(relay.origin);
    if (relay === undefined || origin === undefined) return;
    const message = { kind: 'indirectAck', incarnation: self.incarnation, seq: relay.originSeq, claims: [] } as const;
    outbox.push({ kind: 'datagram', to: origin.entry, message });
  }

  onExpired(seq: number): void {
    const relay = this.#relays.get(seq);
    this.#relays.delete(seq);
    if (relay !== undefined) this.#nack(relay.origin, relay.originSeq, false);
  }

  /** The host of this member refused a connection: the nack need not wait for the timeout. */
  onPortClosed(id: NodeId): void {
    for (const [seq, relay] of [...this.#relays]) {
      if (relay.target !== id) continue;
      this.#relays.delete(seq);
      this.#nack(relay.origin, relay.originSeq, true);
    }
  }

  /** This node was paused: a missing ack proves nothing, so the relays end without a nack. */
  clear(): void {
    this.#relays.clear();
  }

  #nack(origin: NodeId, seq: number, refused: boolean): void {
    const { table, outbox, self } = this.#context;
    const member = table.get(origin);
    if (member === undefined) return;
    const message = { kind: 'nack', incarnation: self.incarnation, seq, claims: [], refused } as const;
    outbox.push({ kind: 'datagram', to: member.entry, message });
  }
}
