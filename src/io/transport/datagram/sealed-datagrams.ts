/**
 * The Datagrams port: seals, rejects, and proves that an unknown session is live, by connection, introduction or
 * challenge. Delivers nothing unproven.
 *
 * A session becomes known in one of three ways:
 *
 *   over a connection     the peer announced it in its greeting
 *   by introduction       the first words to us name us in our present life, and who speaks (introduction.ts)
 *   by challenge          unknown session -> challenge with a random number (never larger than the question)
 *                         -> proof with that number and the sender's identity, followed by what it sent last
 *
 * Until then nothing of it is delivered: it may be a recording. The sender keeps its last datagrams for a moment and
 * sends them again with new counters, so the first words to a new peer are usually not lost.
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
  readonly refusals: RejectionLog;
  readonly clock: Clock;
  readonly admit: AdmitMessage;
  self(): Identity;
  readonly ring: () => KeyRing;
  transmit(packet: Uint8Array, to: Address): void;
  shut(done: () => void): void;
  handlerFailed(error: unknown): void;
  /** There is a new session to tell peers about. */
  readonly renewed: () => void;
};

/** What is the same in every datagram to a node. */
type Addressee = { readonly tag: number; readonly binding: Buffer };

/** A session that is to prove that it is from now; its key is at hand when it does. */
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
/** A replayed challenge must not make us talk more than this. */
const proofIntervalMs = 20;

export class SealedDatagrams implements Datagrams {
  readonly #context: DatagramContext;
  readonly #outbound: OutboundSessions;
  readonly #inbound: InboundSessions;
  readonly #recipients: BoundedLru<string, Recipient>;
  readonly #addressees: BoundedLru<string, Addressee>;
  readonly #challenges = new BoundedLru<string, Challenge>(challengesMax);
  readonly #members: TokenBucket;
  readonly #strangers: TokenBucket;
  readonly #clusterTag: number;
  readonly #selfTag: number;
  readonly #selfBinding: Buffer;
  /** Who we are, in bytes. */
  #who: Buffer | undefined;
  #handler: ((from: Identity, body: Uint8Array) => void) | undefined;

  constructor(context: DatagramContext) {
    const { limits, clock, cluster } = context;
    const nowMs = clock.nowMs();
    this.#context = context;
    const share = { messagesMax: limits.sessionMessagesMax, msMax: limits.sessionMsMax };
    this.#outbound = new OutboundSessions(context.ring, share, nowMs, context.renewed);
    this.#inbound = new InboundSessions(limits.sessionsMax, limits.datagramsPerIdentityPerSecond);
    this.#recipients = new BoundedLru(limits.sessionsMax);
    this.#addressees = new BoundedLru(limits.sessionsMax);
    this.#members = new TokenBucket(limits.datagramsPerSecond, limits.datagramsPerSecond, nowMs);
    this.#strangers = new TokenBucket(limits.strangersPerSecond, limits.strangersPerSecond, nowMs);
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

  /** With who we are, as long as the other may not know. */
  #introduction(to: Peer, recipient: Recipient, body: Uint8Array): DatagramContent | undefined {
    const introduced = nextIntroduction(to, this.#outbound.salt, recipient.introduced);
    if (introduced === undefined) return undefined;
    this.#who ??= identityBytes(this.#context.self());
    const words = writeIntroduction({ toGeneration: introduced.generation, who: this.#who, body });
    if (words === undefined) return undefined;
    recipient.introduced = introduced;
    return { kind: datagramKinds.introduction, body: words };
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

  /** A peer told of its sessions over a connection, so they are fresh and really its own. */
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

  /** One packet from the wire. Never throws. */
  receivePacket(packet: Buffer, from: Address): void {
    try {
      this.#arrived(packet, from);
    } catch (error) {
      const reason = rejectionReasonOf(error);
      if (reason === undefined) this.#context.handlerFailed(error);
      else this.#context.refusals.count(reason, `${from.host}:${from.port}`);
    }
  }

  #arrived(packet: Buffer, from: Address): void {
    const nowMs = this.#context.clock.nowMs();
    const header = readDatagramHeader(packet);
    this.#checkHeader(header);
    const session = this.#inbound.find(header.salt);
    if (session === undefined) return this.#stranger(packet, header, from, nowMs);
    const seen = session.window.check(header.counter);
    if (seen !== 'fresh') throw new RejectedError(seen);
    if (!this.#members.take(nowMs)) throw new RejectedError('rateLimited');
    const inner = openDatagram(packet, header.counter, session.key, this.#selfBinding);
    if (inner === undefined || header.senderId !== session.identity.id) throw new RejectedError('unauthenticated');
    session.window.mark(header.counter);
    if (!session.bucket.take(nowMs)) throw new RejectedError('rateLimited');
    if (inner.kind === datagramKinds.challenge) return this.#prove(header.senderId, inner.body, nowMs);
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
      this.#context.handlerFailed(error);
    }
  }

  /** A session nobody has vouched for: authentic perhaps, but is it from now? */
  #stranger(packet: Buffer, header: DatagramHeader, from: Address, nowMs: number): void {
    if (!this.#strangers.take(nowMs)) throw new RejectedError('rateLimited');
    const key = this.#strangerKey(header);
    const inner = openDatagram(packet, header.counter, key, this.#selfBinding);
    if (inner === undefined) throw new RejectedError('unauthenticated');
    if (this.#inbound.isStale(header.senderId, header.generation)) throw new RejectedError('staleGeneration');
    if (inner.kind === datagramKinds.challenge) return this.#prove(header.senderId, inner.body, nowMs);
    if (inner.kind === datagramKinds.proof) return this.#proven(header, inner.body, key, nowMs);
    if (inner.kind === datagramKinds.introduction && this.#isIntroduced(header, inner.body, key, nowMs))
      return undefined;
    // No error: this is how everybody begins.
    this.#context.refusals.count('unproven', `${from.host}:${from.port}`);
    return this.#challenge(header, key, from, nowMs);
  }

  /** Delivers it, unless it may be a recording: then it counts as any other word of a stranger. */
  #isIntroduced(header: DatagramHeader, bytes: Uint8Array, key: KeyObject, nowMs: number): boolean {
    const { toGeneration, who, body } = readIntroduction(bytes);
    if (toGeneration !== this.#context.self().generation) return false;
    if (!this.#inbound.hasCompleteHistoryOf(header.senderId, header.generation)) return false;
    const identity = readIntroducedIdentity(who);
    if (identity.id !== header.senderId || identity.generation !== header.generation)
      throw new RejectedError('malformed');
    this.#adopt(identity, header, key, nowMs);
    this.#deliver(identity, body);
    return true;
  }

  #adopt(identity: Identity, { keyId, salt, counter }: DatagramHeader, key: KeyObject, nowMs: number): void {
    this.#challenges.delete(salt.toString('latin1'));
    this.#inbound.addProven(identity, { keyId, key, salt: Buffer.from(salt), floor: counter + 1 }, nowMs);
  }

  #strangerKey({ keyId, salt }: DatagramHeader): KeyObject {
    const asked = this.#challenges.peek(salt.toString('latin1'));
    return asked?.keyId === keyId ? asked.key : sessionKey(this.#context.ring().accepted.get(keyId)!, salt);
  }

  #challenge(header: DatagramHeader, key: KeyObject, from: Address, nowMs: number): void {
    const name = header.salt.toString('latin1');
    const asked = this.#challenges.get(name);
    if (asked !== undefined && nowMs - asked.atMs < challengeMs) return;
    const nonce = randomBytes(nonceBytes);
    this.#challenges.set(name, { keyId: header.keyId, key, nonce, atMs: nowMs });
    const body = Buffer.concat([nonce, header.salt]);
    this.#transmit(header.senderId, from, { kind: datagramKinds.challenge, body }, nowMs);
  }

  /** Answers where we ourselves sent something, never where the challenge seems to come from. */
  #prove(challenger: string, body: Uint8Array, nowMs: number): void {
    const recipient = this.#recipients.get(challenger);
    const isOurs = body.length === nonceBytes + sessionSaltBytes && this.#outbound.owns(body.subarray(nonceBytes));
    if (recipient === undefined || !isOurs || nowMs - recipient.provenAtMs < proofIntervalMs) return;
    recipient.provenAtMs = nowMs;
    const proof = writeIdentity(new ByteWriter().bytes(body.subarray(0, nonceBytes)), this.#context.self()).done();
    this.#transmit(challenger, recipient.address, { kind: datagramKinds.proof, body: proof }, nowMs);
    for (const { atMs, body: again } of recipient.recent.splice(0)) {
      if (nowMs - atMs > recentMs) continue;
      this.#transmit(challenger, recipient.address, { kind: datagramKinds.data, body: again }, nowMs);
    }
  }

  #proven(header: DatagramHeader, body: Uint8Array, key: KeyObject, nowMs: number): void {
    const name = header.salt.toString('latin1');
    const asked = this.#challenges.get(name);
    const reader = new ByteReader(body);
    const nonce = reader.bytes(nonceBytes);
    if (asked === undefined || !asked.nonce.equals(nonce)) throw new RejectedError('replayed');
    const identity = readIdentity(reader);
    if (identity.id !== header.senderId || identity.generation !== header.generation)
      throw new RejectedError('malformed');
    this.#adopt(identity, header, key, nowMs);
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
