/** Nodes with sealed datagrams whose wire is an array, for the tests of datagrams and introductions. */
import assert from 'node:assert/strict';

import type { Address, Clock, Identity, Peer } from '../../base/ports.ts';
import { Counters } from './counters.ts';
import { SealedDatagrams } from './datagrams.ts';
import { identity, secret } from './fixtures.test.ts';
import { type KeyRing, makeKeyRing } from './keys.ts';
import { defaultLimits, type TransportLimits } from './limits.ts';
import { Refusals } from './refusal.ts';

export type Packet = { readonly bytes: Buffer; readonly from: Address; readonly to: Address };

export class Wire {
  nowMs = 0;
  readonly packets: Packet[] = [];
  readonly nodes: Node[] = [];
  readonly clock: Clock = { nowMs: () => this.nowMs, wallMs: () => 0, schedule: () => () => undefined };

  /** Delivers until nothing is under way; everything that passed is returned. */
  run(): Packet[] {
    const passed: Packet[] = [];
    for (let packet = this.packets.shift(); packet !== undefined; packet = this.packets.shift()) {
      passed.push(packet);
      const { to, from, bytes } = packet;
      this.nodes.findLast((node) => node.self.port === to.port)?.datagrams.arrived(Buffer.from(bytes), from);
    }
    return passed;
  }
}

export class Node {
  readonly self: Identity;
  readonly counters = new Counters();
  readonly heard: string[] = [];
  readonly datagrams: SealedDatagrams;
  readonly announced: Buffer[] = [];
  ring: KeyRing;
  refusal: string | undefined;

  constructor(wire: Wire, self: Identity, limits: Partial<TransportLimits> = {}, cluster = 'test', word = secret) {
    this.self = self;
    this.ring = makeKeyRing(cluster, { current: word, previous: [] });
    const at = { host: self.host, port: self.port };
    this.datagrams = new SealedDatagrams({
      cluster,
      limits: { ...defaultLimits, ...limits },
      counters: this.counters,
      refusals: new Refusals(this.counters, wire.clock, () => undefined),
      clock: wire.clock,
      admit: () => this.refusal,
      self: () => self,
      ring: () => this.ring,
      transmit: (packet, to) => wire.packets.push({ bytes: Buffer.from(packet), from: at, to }),
      shut: (done) => done(),
      handlerFailed: (error) => assert.fail(String(error)),
      renewed: () => this.announced.push(this.datagrams.announcement()),
    });
    this.datagrams.receive((from, body) => this.heard.push(`${from.name}: ${Buffer.from(body).toString()}`));
    wire.nodes.push(this);
  }

  rejected(reason: string): number {
    return this.counters.snapshot()[`rejected.${reason}`] ?? 0;
  }
}

export const identityA = identity('a', { port: 1 });
export const identityB = identity('b', { port: 2 });

/** Where somebody is, but not in which of its lives: one cannot introduce oneself to it. */
export function placeOf({ id, host, port }: Identity): Peer {
  return { id, host, port };
}

export function pair(limits: Partial<TransportLimits> = {}) {
  const wire = new Wire();
  const [a, b] = [new Node(wire, identityA, limits), new Node(wire, identityB, limits)];
  return { wire, a, b };
}
