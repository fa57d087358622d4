/**
 * The decoders of the transport. `hello`, `frames` and `datagrams` are what a stranger can reach; `greeting`,
 * `sessions` and `segments` lie behind the seal, where only a member that has gone bad can send nonsense.
 */
import { BoundedLru } from '../../src/base/collections/bounded-lru.ts';
import { nodeIdFrom } from '../../src/base/ids.ts';
import type { Identity, StreamService } from '../../src/base/ports.ts';
import type { Compression } from '../../src/io/transport/compression.ts';
import { Counters } from '../../src/io/transport/counters.ts';
import { openDatagram, readDatagramHeader, writeDatagram } from '../../src/io/transport/datagram-format.ts';
import { FrameReader, openFrame, sealFrame } from '../../src/io/transport/frame.ts';
import { helloBytes, makeGreeting, makeHello, readGreeting, readHello } from '../../src/io/transport/handshake.ts';
import { clusterTag, derive, makeKeyRing, protocolVersion, recipientTag } from '../../src/io/transport/keys.ts';
import { defaultLimits } from '../../src/io/transport/limits.ts';
import type { MuxContext } from '../../src/io/transport/mux-context.ts';
import { Mux } from '../../src/io/transport/mux.ts';
import { readAnnouncement } from '../../src/io/transport/outbound-sessions.ts';
import { ByteBudget } from '../../src/io/transport/reassembly.ts';
import { Refused, rejectionOf } from '../../src/io/transport/refusal.ts';
import { Opener, Sealer } from '../../src/io/transport/seal.ts';
import { kindMax, kinds, writeSegment, writeU32 } from '../../src/io/transport/segment.ts';
import { TokenBucket } from '../../src/io/transport/token-bucket.ts';
import type { Family } from './engine.ts';

const cluster = 'fuzz';
const ring = makeKeyRing(cluster, { current: 'x9K!mPq2$vRt7wLz4#nB', previous: [] });
const salt = new Uint8Array(32).fill(7);
const key = derive(ring.current.key, salt, 'fuzz');
const aad = new Uint8Array(20).fill(3);
const reasonOf = rejectionOf;

const peer: Identity = {
  id: nodeIdFrom(new Uint8Array(16).fill(1)),
  name: 'n1',
  host: '10.0.0.1',
  port: 8_000,
  generation: 3,
  roles: ['manager', 'worker'],
  dc: 'east',
};

/** No change to sealed bytes may go unnoticed. */
function mustBeGenuine(accepted: Uint8Array, { corpus }: Family): void {
  if (!corpus.some((valid) => Buffer.compare(valid, accepted) === 0)) throw new Error('a forgery was accepted');
}

const hello: Family = {
  name: 'hello',
  headerBytes: 13,
  corpus: [makeHello(ring.current, cluster, salt)],
  reasonOf,
  attempt: (input) => {
    // The acceptor reads exactly so many bytes.
    const whole = new Uint8Array(helloBytes);
    whole.set(input.subarray(0, helloBytes));
    readHello(whole, ring, cluster, new BoundedLru(4));
    mustBeGenuine(whole, hello);
  },
};

const greeting: Family = {
  name: 'greeting',
  headerBytes: 16,
  corpus: [
    makeGreeting({ identity: peer, sessions: new Uint8Array(0) }),
    makeGreeting({ identity: { ...peer, host: 'h'.repeat(255), name: '\u20ac' }, sessions: new Uint8Array(57) }),
  ],
  reasonOf,
  attempt: (input) => void readGreeting(input),
};

const sessions: Family = {
  name: 'sessions',
  headerBytes: 1,
  corpus: [0, 1, 2].map((count) => Uint8Array.from([count, ...new Uint8Array(28 * count).fill(1)])),
  reasonOf,
  attempt: (input) => void readAnnouncement(input),
};

/** Segments of every kind, alone and in a row. */
function segmentFrames(): Uint8Array[] {
  const announcement = new Uint8Array(14);
  announcement[0] = kinds.request;
  writeU32(announcement, 2, 9);
  writeU32(announcement, 10, 40);
  const bodies = [
    new Uint8Array(0),
    new Uint8Array(20).fill(5),
    announcement,
    new TextEncoder().encode('DEADLINE\nlate'),
  ];
  const singles = Array.from({ length: kindMax }, (_, i) => i + 1).flatMap((kind) =>
    bodies.map((body) => framed([[kind, 0, kind, 40, body]])),
  );
  const conversation = framed([
    [kinds.open, 0, 1, 65_536, bodies[1] as Uint8Array],
    [kinds.data, 0, 1, 0, bodies[1] as Uint8Array],
    [kinds.begin, 0, 4, 40, announcement],
    [kinds.part, 0, 4, 0, bodies[1] as Uint8Array],
    [kinds.part, 0, 4, 0, bodies[1] as Uint8Array],
    [kinds.request, 0, 2, 1_000, bodies[1] as Uint8Array],
    [kinds.cancel, 0, 2, 0, bodies[0] as Uint8Array],
    [kinds.end, 0, 1, 0, bodies[0] as Uint8Array],
  ]);
  return [...singles, conversation, conversation];
}

function framed(segments: readonly (readonly [number, number, number, number, Uint8Array])[]): Uint8Array {
  const frame = new Uint8Array(1_024);
  return frame.slice(
    0,
    segments.reduce((at, segment) => writeSegment(frame, at, ...segment), 0),
  );
}

const limits = { ...defaultLimits, messageBytesMax: 4_096, reassemblyBytesMax: 16_384, requestsInboundMax: 64 };
const streamEvents = { chunk: () => {}, writable: () => {}, ended: () => {} };
const service: StreamService = {
  request: (_from, body, _remainingMs, reply) => reply({ ok: true, value: body.slice() }),
  notify: () => {},
  open: () => streamEvents,
};
/** Inflating ends in a later turn, which a run without a pause never reaches. */
const noCompression = { compress: () => {}, decompress: () => {} } as unknown as Compression;

function muxContext(): MuxContext {
  return {
    limits,
    counters: new Counters(),
    log: () => {},
    admit: () => undefined,
    compression: noCompression,
    reassembly: new ByteBudget(limits.reassemblyBytesMax),
    bucket: () => new TokenBucket(1_000, 1_000, 0),
    service: () => service,
    announced: (_peer, body) => void readAnnouncement(body),
  };
}

const segments: Family = {
  name: 'segments',
  headerBytes: 1,
  corpus: segmentFrames(),
  reasonOf,
  attempt: (input) => {
    const events = { wake: () => {}, flush: () => {}, goodbye: () => {}, broken: () => {} };
    const mux = new Mux(peer, muxContext(), events);
    const outcomes: boolean[] = [];
    mux.request(Uint8Array.of(1), 0, 1_000, ({ ok }) => outcomes.push(ok));
    try {
      mux.receive(input, 1);
    } finally {
      mux.end('over');
    }
    if (outcomes.length !== 1) throw new Error(`a request ended ${outcomes.length} times`);
  },
};

const short = new Uint8Array(1).fill(1);
const framePlains = [short, ...[14, 40, 2_000].map((size) => new Uint8Array(size).fill(1))];

const frames: Family = {
  name: 'frames',
  headerBytes: 4,
  corpus: framePlains.map((first) => {
    const sealer = new Sealer(key);
    return Buffer.concat([first, short, first].flatMap((plain) => sealFrame(sealer, plain)));
  }),
  reasonOf,
  attempt: (input) => {
    const opener = new Opener(key);
    const reader = new FrameReader();
    // Torn at places that depend on the input, as a network would.
    const tear = (input[5] ?? 0) % (input.length + 1);
    for (const chunk of [input.subarray(0, tear), input.subarray(tear)]) {
      reader.read(chunk, (sealed) => {
        const plain = openFrame(opener, sealed);
        if (!framePlains.some((genuine) => plain.equals(genuine))) throw new Error('a forged frame was opened');
        return true;
      });
    }
  },
};

const datagrams: Family = {
  name: 'datagrams',
  headerBytes: 0,
  corpus: [0, 20, 1_300].map((size) => {
    const header = {
      version: protocolVersion,
      clusterTag: clusterTag(cluster),
      keyId: ring.current.keyId,
      recipientTag: recipientTag(peer.id),
      senderId: peer.id,
      generation: 3,
      salt: Buffer.alloc(16, 9),
      counter: 77,
    };
    return writeDatagram(header, { kind: 1, body: new Uint8Array(size) }, key, aad);
  }),
  reasonOf,
  attempt: (input) => {
    const packet = Buffer.from(input);
    const { counter } = readDatagramHeader(packet);
    if (openDatagram(packet, counter, key, aad) === undefined) throw new Refused('unauthenticated');
    mustBeGenuine(packet, datagrams);
  },
};

export const transportFamilies: readonly Family[] = [hello, greeting, sessions, segments, frames, datagrams];
