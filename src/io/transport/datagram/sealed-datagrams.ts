/**
 * The Datagrams port. Delivers only datagrams of proven sessions, since others may be replays.
 *
 * A session is proven in one of three ways:
 *
 *   connection     the peer has announced it in its greeting
 *   introduction   the first datagram names the current generation of the receiver, and its sender (introduction.ts)
 *   challenge      unknown session -> challenge with a nonce, never larger than the datagram that caused it
 *                  -> proof with the nonce and the sender's identity, followed by the last datagrams again
 *
 * The sender keeps its last datagrams for a short time and resends them with new counters after the proof, so that the
 * first datagrams to a new peer are usually not lost.
 */
import { type KeyObject, randomBytes } from 'node:crypto';

import { assert } from '../../../base/assert.ts';
import { success } from '../../../base/errors.ts';
import type { Done } from '../../../base/errors.ts';
import {
  type Address,
  type Clock,
  datagramBytesMax,
  type Datagrams,
  type Identity,
  type Peer,
} from '../../../base/ports.ts';
import { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import type { TransportCounters } from '../shared/transport-counters.ts';
import {
  datagramKinds,
  type DatagramHeader,
  type DatagramContent,
  openDatagram,
  readDatagramHeader,
  sessionSaltBytes,
  writeDatagram,
} from './datagram-format.ts';
import { ByteReader, ByteWriter, nodeIdToBytes, readIdentity, writeIdentity } from '../crypto/identity-codec.ts';
import {
  identityBytes,
  type IntroductionState,
  nextIntroduction,
  readIntroduction,
  readIntroducedIdentity,
  writeIntroduction,
} from './introduction.ts';
import { InboundSessions } from './inbound-sessions.ts';
import { clusterTag, type KeyRing, transportVersion, recipientTag } from '../crypto/keys.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';
import type { AdmitMessage } from '../mux/mux-context.ts';
import { OutboundSessions, readSessionAnnouncement, sessionKey } from './outbound-sessions.ts';
import { type RejectionLog, RejectedError, rejectionReasonOf } from '../shared/rejections.ts';
import { TokenBucket } from '../shared/token-bucket.ts';

export type DatagramContext = {
  readonly cluster: string;
  readonly limits: TransportLimits;
  readonly counters: TransportCounters;
  readonly rejections: RejectionLog;
  readonly clock: Clock;
  readonly admit: AdmitMessage;
  self(): Identity;
  readonly ring: () => KeyRing;
  transmit(packet: Uint8Array, to: Address): void;
  shut(done: () => void): void;
  onHandlerError(error: unknown): void;
  /** There is a new session to announce to peers. */
  readonly onRenew: () => void;
};

/** The parts that are equal in every datagram to a node. */
type Addressee = { readonly tag: number; readonly binding: Buffer };

/** An unproven session that was challenged. The key is kept, because the proof needs it. */
type Challenge = { readonly keyId: number; readonly key: KeyObject; readonly nonce: Buffer; readonly atMs: number };

type Recipient = {
  readonly address: Address;
  readonly recent: { atMs: number; body: Uint8Array }[];
  provenAtMs: number;
  introduced: IntroductionState | undefined;
};

const nonceBytes = 16;
const challengesMax = 1_024;
const challengeMs = 500;
const recentMax = 2;
const recentMs = 2_000;
/** Bounds the proofs that replayed challenges can cause. */
const proofIntervalMs = 20;

export class SealedDatagrams implements Datagrams {
  readonly #context: DatagramContext;
  readonly #outbound: OutboundSessions;
  readonly #inbound: InboundSessions;
  readonly #recipients: BoundedLru<string, Recipient>;
  readonly #addressees: BoundedLru<string, Addressee>;
  readonly #challenges = new BoundedLru<string, Challenge>(challengesMax);
  readonly #provenBucket: TokenBucket;
  readonly #unprovenBucket: TokenBucket;
  readonly #clusterTag: number;
  readonly #selfTag: number;
  readonly #selfBinding: Buffer;
  /** The encoded identity of this node. */
  #selfBytes: Buffer | undefined;
  #handler: ((from: Identity, body: Uint8Array) => void) | undefined;

  constructor(context: DatagramContext) {
    const { limits, clock, cluster } = context;
    const nowMs = clock.nowMs();
    this.#context = context;
    const bounds = { messagesMax: limits.sessionMessagesMax, msMax: limits.sessionMsMax };
    this.#outbound = new OutboundSessions(context.ring, bounds, nowMs, context.onRenew);
    this.#inbound = new InboundSessions(limits.sessionsMax, limits.datagramsPerIdentityPerSecond);
    this.#recipients = new BoundedLru(limits.sessionsMax);
    this.#addressees = new BoundedLru(limits.sessionsMax);
    this.#provenBucket = new TokenBucket(limits.datagramsPerSecond, limits.datagramsPerSecond, nowMs);
    this.#unprovenBucket = new TokenBucket(limits.unprovenPerSecond, limits.unprovenPerSecond, nowMs);
    this.#clusterTag = clusterTag(cluster);
    this.#selfTag = recipientTag(context.self().id);
    this.#selfBinding = binding(cluster, context.self().id);
  }

  send(to: Peer, body: Uint8Array): void {
    assert(body.length <= datagramBytesMax, `a datagram has at most ${datagramBytesMax} bytes`);
    const nowMs = this.#context.clock.nowMs();
    const known = this.#recipients.get(to.id);
    const moved = known?.address.host !== to.host || known.address.port !== to.port;
    const recipient =
      known === undefined || moved
        ? { address: { host: to.host, port: to.port }, recent: [], provenAtMs: -Infinity, introduced: undefined }
        : known;
    if (recipient !== known) this.#recipients.set(to.id, recipient);
    recipient.recent.push({ atMs: nowMs, body: new Uint8Array(body) });
    if (recipient.recent.length > recentMax) recipient.recent.shift();
    const inner = this.#introduction(to, recipient, body) ?? { kind: datagramKinds.data, body };
    this.#transmit(to.id, recipient.address, inner, nowMs);
  }

  /** An introduction with this body, as long as the peer may not know the session. */
  #introduction(to: Peer, recipient: Recipient, body: Uint8Array): DatagramContent | undefined {
    const introduced = nextIntroduction(to, this.#outbound.salt, recipient.introduced);
    if (introduced === undefined) return undefined;
    this.#selfBytes ??= identityBytes(this.#context.self());
    const bytes = writeIntroduction({ toGeneration: introduced.generation, who: this.#selfBytes, body });
    if (bytes === undefined) return undefined;
    recipient.introduced = introduced;
    return { kind: datagramKinds.introduction, body: bytes };
  }

  receive(handler: (from: Identity, body: Uint8Array) => void): void {
    this.#handler = handler;
  }

  close(done: Done<void>): void {
    this.#handler = undefined;
    this.#context.shut(() => done(success(undefined)));
  }

  sessionAnnouncement(): Buffer {
    return this.#outbound.announcement();
  }

  /** Sessions that a peer has announced over a connection, which proves them. */
  learnSessions(identity: Identity, announcement: Uint8Array): void {
    const nowMs = this.#context.clock.nowMs();
    for (const { keyId, salt, floor } of readSessionAnnouncement(announcement)) {
      this.#inbound.learn(this.#context.ring(), identity, keyId, salt, floor, nowMs);
    }
  }

  rekey(): void {
    this.#outbound.rekey(this.#context.clock.nowMs());
    this.#inbound.keepOnly(this.#context.ring());
  }

  /** A packet from the socket. Never throws. */
  receivePacket(packet: Buffer, from: Address): void {
    try {
      this.#onPacket(packet, from);
    } catch (error) {
      const reason = rejectionReasonOf(error);
      if (reason === undefined) this.#context.onHandlerError(error);
      else this.#context.rejections.count(reason, `${from.host}:${from.port}`);
    }
  }

  #onPacket(packet: Buffer, from: Address): void {
    const nowMs = this.#context.clock.nowMs();
    const header = readDatagramHeader(packet);
    this.#checkHeader(header);
    const session = this.#inbound.find(header.salt);
    if (session === undefined) return this.#onUnprovenSession(packet, header, from, nowMs);
    const seen = session.window.check(header.counter);
    if (seen !== 'fresh') throw new RejectedError(seen);
    if (!this.#provenBucket.take(nowMs)) throw new RejectedError('rateLimited');
    const inner = openDatagram(packet, header.counter, session.key, this.#selfBinding);
    if (inner === undefined || header.senderId !== session.identity.id) throw new RejectedError('unauthenticated');
    session.window.mark(header.counter);
    if (!session.bucket.take(nowMs)) throw new RejectedError('rateLimited');
    if (inner.kind === datagramKinds.challenge) return this.#onChallenge(header.senderId, inner.body, nowMs);
    if (inner.kind === datagramKinds.data) return this.#deliver(session.identity, inner.body);
    if (inner.kind !== datagramKinds.introduction) return undefined;
    return this.#deliver(session.identity, readIntroduction(inner.body).body);
  }

  #checkHeader(header: DatagramHeader): void {
    if (header.version !== transportVersion) throw new RejectedError('version');
    if (header.clusterTag !== this.#clusterTag) throw new RejectedError('wrongCluster');
    if (this.#outbound.owns(header.salt)) throw new RejectedError('reflected');
    if (header.recipientTag !== this.#selfTag) throw new RejectedError('wrongRecipient');
    if (!this.#context.ring().accepted.has(header.keyId)) throw new RejectedError('unknownKey');
  }

  #deliver(from: Identity, body: Uint8Array): void {
    const refusal = this.#context.admit('datagram', from, body);
    if (refusal !== undefined) throw new RejectedError('role');
    this.#context.counters.traffic['datagrams.received'] += 1;
    try {
      this.#handler?.(from, body);
    } catch (error) {
      this.#context.onHandlerError(error);
    }
  }

  /** The datagram may be authentic, but also a replay. */
  #onUnprovenSession(packet: Buffer, header: DatagramHeader, from: Address, nowMs: number): void {
    if (!this.#unprovenBucket.take(nowMs)) throw new RejectedError('rateLimited');
    const key = this.#unprovenKey(header);
    const inner = openDatagram(packet, header.counter, key, this.#selfBinding);
    if (inner === undefined) throw new RejectedError('unauthenticated');
    if (this.#inbound.isStale(header.senderId, header.generation)) throw new RejectedError('staleGeneration');
    if (inner.kind === datagramKinds.challenge) return this.#onChallenge(header.senderId, inner.body, nowMs);
    if (inner.kind === datagramKinds.proof) return this.#onProof(header, inner.body, key, nowMs);
    if (inner.kind === datagramKinds.introduction && this.#acceptIntroduction(header, inner.body, key, nowMs))
      return undefined;
    // Counted, but no error: every session starts unproven.
    this.#context.rejections.count('unproven', `${from.host}:${from.port}`);
    return this.#challenge(header, key, from, nowMs);
  }

  /** Delivers the introduction and returns true, unless it may be a replay: then the session is challenged. */
  #acceptIntroduction(header: DatagramHeader, bytes: Uint8Array, key: KeyObject, nowMs: number): boolean {
    const { toGeneration, who, body } = readIntroduction(bytes);
    if (toGeneration !== this.#context.self().generation) return false;
    if (!this.#inbound.hasCompleteHistoryOf(header.senderId, header.generation)) return false;
    const identity = readIntroducedIdentity(who);
    if (identity.id !== header.senderId || identity.generation !== header.generation)
      throw new RejectedError('malformed');
    this.#addProven(identity, header, key, nowMs);
    this.#deliver(identity, body);
    return true;
  }

  #addProven(identity: Identity, { keyId, salt, counter }: DatagramHeader, key: KeyObject, nowMs: number): void {
    this.#challenges.delete(salt.toString('latin1'));
    this.#inbound.addProven(identity, { keyId, key, salt: Buffer.from(salt), floor: counter + 1 }, nowMs);
  }

  #unprovenKey({ keyId, salt }: DatagramHeader): KeyObject {
    const challenge = this.#challenges.peek(salt.toString('latin1'));
    return challenge?.keyId === keyId ? challenge.key : sessionKey(this.#context.ring().accepted.get(keyId)!, salt);
  }

  #challenge(header: DatagramHeader, key: KeyObject, from: Address, nowMs: number): void {
    const name = header.salt.toString('latin1');
    const previous = this.#challenges.get(name);
    if (previous !== undefined && nowMs - previous.atMs < challengeMs) return;
    const nonce = randomBytes(nonceBytes);
    this.#challenges.set(name, { keyId: header.keyId, key, nonce, atMs: nowMs });
    const body = Buffer.concat([nonce, header.salt]);
    this.#transmit(header.senderId, from, { kind: datagramKinds.challenge, body }, nowMs);
  }

  /** Sends the proof to the address that this node has sent to, never to the source of the challenge. */
  #onChallenge(challenger: string, body: Uint8Array, nowMs: number): void {
    const recipient = this.#recipients.get(challenger);
    const isOwn = body.length === nonceBytes + sessionSaltBytes && this.#outbound.owns(body.subarray(nonceBytes));
    if (recipient === undefined || !isOwn || nowMs - recipient.provenAtMs < proofIntervalMs) return;
    recipient.provenAtMs = nowMs;
    const proof = writeIdentity(new ByteWriter().bytes(body.subarray(0, nonceBytes)), this.#context.self()).done();
    this.#transmit(challenger, recipient.address, { kind: datagramKinds.proof, body: proof }, nowMs);
    for (const { atMs, body: recentBody } of recipient.recent.splice(0)) {
      if (nowMs - atMs > recentMs) continue;
      this.#transmit(challenger, recipient.address, { kind: datagramKinds.data, body: recentBody }, nowMs);
    }
  }

  #onProof(header: DatagramHeader, body: Uint8Array, key: KeyObject, nowMs: number): void {
    const name = header.salt.toString('latin1');
    const challenge = this.#challenges.get(name);
    const reader = new ByteReader(body);
    const nonce = reader.bytes(nonceBytes);
    if (challenge === undefined || !challenge.nonce.equals(nonce)) throw new RejectedError('replayed');
    const identity = readIdentity(reader);
    if (identity.id !== header.senderId || identity.generation !== header.generation)
      throw new RejectedError('malformed');
    this.#addProven(identity, header, key, nowMs);
  }

  #transmit(toId: string, address: Address, inner: DatagramContent, nowMs: number): void {
    const { session, counter } = this.#outbound.take(nowMs);
    const self = this.#context.self();
    const addressee = this.#addressee(toId);
    const header: DatagramHeader = {
      version: transportVersion,
      clusterTag: this.#clusterTag,
      keyId: session.keyId,
      recipientTag: addressee.tag,
      senderId: self.id,
      generation: self.generation,
      salt: session.salt,
      counter,
    };
    this.#context.counters.traffic['datagrams.sent'] += 1;
    this.#context.transmit(writeDatagram(header, inner, session.key, addressee.binding), address);
  }

  #addressee(id: string): Addressee {
    const known = this.#addressees.get(id);
    if (known !== undefined) return known;
    const addressee = { tag: recipientTag(id), binding: binding(this.#context.cluster, id) };
    this.#addressees.set(id, addressee);
    return addressee;
  }
}

function binding(cluster: string, recipientId: string): Buffer {
  return new ByteWriter().text(cluster).bytes(nodeIdToBytes(recipientId)).done();
}
