/** Nodes with sealed datagrams on an in-memory wire and a manual clock. */
import assert from 'node:assert/strict';

import type { Address, Clock, Identity, Peer } from '../../../src/base/ports.ts';
import { TransportCounters } from '../../../src/io/transport/shared/transport-counters.ts';
import { SealedDatagrams } from '../../../src/io/transport/datagram/sealed-datagrams.ts';
import { identity, secret } from './transport-nodes.ts';
import { type KeyRing, makeKeyRing } from '../../../src/io/transport/crypto/keys.ts';
import { defaultTransportLimits, type TransportLimits } from '../../../src/io/transport/shared/transport-limits.ts';
import { RejectionLog } from '../../../src/io/transport/shared/rejections.ts';

export type Packet = { readonly bytes: Buffer; readonly from: Address; readonly to: Address };

export class InMemoryWire {
  nowMs = 0;
  readonly packets: Packet[] = [];
  readonly nodes: DatagramTestNode[] = [];
  readonly clock: Clock = { nowMs: () => this.nowMs, wallMs: () => 0, schedule: () => () => undefined };

  /** Delivers until no packet is in flight; returns all delivered packets. */
  run(): Packet[] {
    const delivered: Packet[] = [];
    for (let packet = this.packets.shift(); packet !== undefined; packet = this.packets.shift()) {
      delivered.push(packet);
      const { to, from, bytes } = packet;
      this.nodes.findLast((node) => node.self.port === to.port)?.datagrams.receivePacket(Buffer.from(bytes), from);
    }
    return delivered;
  }
}

export class DatagramTestNode {
  readonly self: Identity;
  readonly counters = new TransportCounters();
  readonly received: string[] = [];
  readonly datagrams: SealedDatagrams;
  readonly announced: Buffer[] = [];
  ring: KeyRing;
  refusal: string | undefined;

  constructor(
    wire: InMemoryWire,
    self: Identity,
    limits: Partial<TransportLimits> = {},
    cluster = 'test',
    clusterSecret = secret,
  ) {
    this.self = self;
    this.ring = makeKeyRing(cluster, { current: clusterSecret, previous: [] });
    const at = { host: self.host, port: self.port };
    this.datagrams = new SealedDatagrams({
      cluster,
      limits: { ...defaultTransportLimits, ...limits },
      counters: this.counters,
      rejections: new RejectionLog(this.counters, wire.clock, () => undefined),
      clock: wire.clock,
      admit: () => this.refusal,
      self: () => self,
      ring: () => this.ring,
      transmit: (packet, to) => wire.packets.push({ bytes: Buffer.from(packet), from: at, to }),
      shut: (done) => done(),
      onHandlerError: (error) => assert.fail(String(error)),
      onRenew: () => this.announced.push(this.datagrams.sessionAnnouncement()),
    });
    this.datagrams.receive((from, body) => this.received.push(`${from.name}: ${Buffer.from(body).toString()}`));
    wire.nodes.push(this);
  }

  rejected(reason: string): number {
    return this.counters.snapshot()[`rejected.${reason}`] ?? 0;
  }
}

export const identityA = identity('a', { port: 1 });
export const identityB = identity('b', { port: 2 });

/** The id and address of a node without its generation, so no session can be announced to it. */
export function peerOf({ id, host, port }: Identity): Peer {
  return { id, host, port };
}

export function datagramPair(limits: Partial<TransportLimits> = {}) {
  const wire = new InMemoryWire();
  const [a, b] = [new DatagramTestNode(wire, identityA, limits), new DatagramTestNode(wire, identityB, limits)];
  return { wire, a, b };
}
